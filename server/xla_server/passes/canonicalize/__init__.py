"""Passes that bring dots, convolutions and layouts into the form that lowering expects."""

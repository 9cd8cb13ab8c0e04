"""Lowering of running reductions and of select-and-scatter."""

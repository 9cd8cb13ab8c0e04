"""Passes that write an operation in terms of simpler ones."""

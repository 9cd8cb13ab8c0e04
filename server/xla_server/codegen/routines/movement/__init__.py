"""Copies of arrays: concatenation, and tiles transposed in registers."""

"""Kernels that copy arrays into another order of dimensions."""

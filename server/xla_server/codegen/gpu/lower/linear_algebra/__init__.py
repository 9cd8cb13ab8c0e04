"""Factorizations and triangular solves on a GPU: plans of a library, and small kernels."""

"""Lowering of Fourier transforms."""

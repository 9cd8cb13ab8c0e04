"""Evaluators of factorisations, triangular systems and Fourier transforms."""

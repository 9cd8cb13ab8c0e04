"""Lowering of factorisations, triangular systems and calls of LAPACK."""

"""Factors of matrices and systems of equations, block by block."""

"""LAPACK's functions as targets, on batches of matrices."""

"""Lowering of products of matrices and of convolutions."""

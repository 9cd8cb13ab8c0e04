"""Evaluators of products of matrices and tensors, and convolutions."""

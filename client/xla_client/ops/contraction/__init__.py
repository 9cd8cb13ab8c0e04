"""Products of matrices and tensors, and convolutions."""

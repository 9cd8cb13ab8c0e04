"""Rules and wire forms of products of matrices and tensors, and convolutions."""

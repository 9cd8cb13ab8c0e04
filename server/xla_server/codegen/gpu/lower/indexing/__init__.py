"""Sorts, top-k and scatters on a GPU, which sort their indices."""

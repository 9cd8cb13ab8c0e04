"""Reductions, windows and normalisation."""

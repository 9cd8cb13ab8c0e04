"""Interpretation of computations in numpy, and analyses of their cost and memory."""

"""Analyses of kernels: known numbers, loops that become vectors, counts of evaluations."""

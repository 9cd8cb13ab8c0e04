"""Analyses of kernels: the rules they obey, accesses, counts of evaluations."""

"""Routines that kernels call, as the walker executes them: by numpy, scipy and Python."""

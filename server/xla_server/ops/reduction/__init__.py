"""Evaluators of reductions, windows, scans and normalisation."""

"""Evaluators of elementwise operations, conversions and comparisons."""

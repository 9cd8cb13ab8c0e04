"""Reductions: splitting for accuracy, vectorisation, and sharing of loops."""

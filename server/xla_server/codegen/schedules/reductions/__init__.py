"""Reductions: splitting, vectorisation, and loops shared by several."""

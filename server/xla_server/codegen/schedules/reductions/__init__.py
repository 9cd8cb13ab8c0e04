"""Reductions: how they are split, combined in vectors, and share loops."""

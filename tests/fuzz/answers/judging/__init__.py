"""Differences that are right, by tolerance or by a known reason."""

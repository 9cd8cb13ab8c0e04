"""Dumps, reproducers of failed compilations, and profiles."""

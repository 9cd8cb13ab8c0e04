"""Verification of imported modules: shapes, calls, aliases, channels and participants."""

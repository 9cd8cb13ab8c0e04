"""Lowering of control flow, tuples, aliases and tokens."""

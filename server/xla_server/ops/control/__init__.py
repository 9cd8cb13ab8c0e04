"""Evaluators of calls, control flow, tuples and parameters."""

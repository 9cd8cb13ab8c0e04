"""Evaluators of values exchanged with the host or another program."""

"""Evaluators of random numbers and the states they are drawn from."""

"""The evaluator of each operation, in numpy."""

"""The rows of elementwise operations by family, each with the functions of its evaluator."""

"""Arguments of operations: checks by annotations; operands, scalars and windows."""

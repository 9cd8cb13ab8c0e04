"""The order of instructions in which arrays are updated in place instead of copied."""

"""Rules and wire forms of calls, control flow, tuples and parameters."""

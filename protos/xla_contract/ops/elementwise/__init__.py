"""Rules and wire forms of elementwise operations, conversions and comparisons."""

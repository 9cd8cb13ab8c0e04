"""Functions of single elements: arithmetic, comparisons, conversions, choices."""

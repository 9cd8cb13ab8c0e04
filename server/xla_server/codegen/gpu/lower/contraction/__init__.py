"""Products of matrices on a GPU: plans of a library, with conversions around them."""

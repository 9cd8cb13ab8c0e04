"""Elementary functions of floats, one file per family."""

"""Elementary functions of our own for kernels, one file per family."""

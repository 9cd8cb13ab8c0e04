"""Communication of ranks: MPI, messages, small arrays, and the shared memory of a machine."""

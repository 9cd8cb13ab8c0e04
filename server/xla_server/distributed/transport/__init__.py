"""Communication of ranks: MPI, control messages, small arrays, and memory shared on a machine."""

"""Functions that give elements other dimensions, or take parts of arrays."""

"""Programs of dynamic shape, specialised to the sizes of a run."""

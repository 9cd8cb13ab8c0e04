"""One device: its interface, and NVIDIA's driver behind it."""

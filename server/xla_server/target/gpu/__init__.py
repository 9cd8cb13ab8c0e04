"""GPUs as targets: properties by compute capability, kernels and library calls, tuning."""

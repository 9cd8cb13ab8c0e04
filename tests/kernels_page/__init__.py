"""docs/KERNELS.md: one program from HLO to machine code, with what is printed at each step."""

"""Elementary functions of kernels, written as LLVM IR without a libm, one file per family."""

"""Kernels for NVIDIA GPUs: the loop IR, by LLVM, to PTX. No driver or CUDA package is needed.

`grid.py` has `GridKernel`: a kernel and the size of its launch. `schedules` makes it of loop nests.
`plans` describes what libraries compute. `lower` makes kernels and plans of programs, and
`emit` makes PTX of kernels, and machine code of that where ptxas is installed. The platform
`cuda` (`backends/cuda`) runs them.

The text that becomes PTX is also compiled for the host, where tests run it (`tests/cuda_twin`).
docs/decisions/0022-ptx-by-llvm.md has the reasons.
"""

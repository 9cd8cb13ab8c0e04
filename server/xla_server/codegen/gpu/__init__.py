"""Kernels for NVIDIA GPUs: the loop IR, by LLVM, to PTX. No driver or CUDA package is needed.

`elementwise.py` schedules a loop nest as threads, `rows.py` reductions over rows as warps, whose
lanes combine their results by `Exchange`, `columns.py` those over leading dimensions as threads.
`threads.py` fits every nest. `GridKernel` is the kernel with its launch. `lower` makes these of
programs.

`emitter.py` derives from the emitter of processors: the same statements and formulas, with pointers
to global memory, the number of a thread, and indices of 32 bits. `ptx.py` compiles modules in a
child process. No platform uses it yet.

The text that becomes PTX is also compiled for the host, where tests run it (`tests/cuda_twin`).
docs/decisions/0022-ptx-by-llvm.md has the reasons.
"""

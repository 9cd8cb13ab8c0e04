"""Kernels for NVIDIA GPUs: the loop IR, by LLVM, to PTX. No driver or CUDA package is needed.

`schedules.py` has the schedules of loop nests, each in a file of its own. `groups.py` builds
threads that reduce together: lanes of a warp combine their results by `Exchange`, and warps of a
block through a `SharedArray` with a `Barrier` between. `GridKernel` is the kernel with its launch.
`lower` makes these of programs.

`emitter.py` derives from the emitter of processors: the same statements and formulas, with pointers
to global memory, the number of a thread, and indices of 32 bits. `ptx.py` compiles modules in a
child process. No platform uses it yet.

The text that becomes PTX is also compiled for the host, where tests run it (`tests/cuda_twin`).
docs/decisions/0022-ptx-by-llvm.md has the reasons.
"""

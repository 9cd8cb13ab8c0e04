"""Compilation of LLVM IR, and of functions of Python, to object code in memory and on disk.

`python_compiler.py` translates Python functions directly to LLVM IR; numba's front end compiles the
same functions in tests, as an oracle. `kernel_compiler.py` runs LLVM at the effort that a kernel
has. `shared_functions.py` has what depends on no program, compiled once. `kernel_cache.py` stores
object code by content; C routines are symbols in it, never addresses. `loader.py` links: 64 kernels
share a `Loader`, whose code is freed with the last of them. Linux allows a process 65,530 memory
areas, so loaders of single programs follow once much code is loaded. A loader refuses object code
that calls an undefined symbol, for which LLVM would call address 0.
"""

"""Kernels for a GPU as LLVM modules, PTX and machine code.

`emitter.py` derives from the emitter of processors: the same statements and formulas, with
pointers to global memory, the number of a thread, and indices of 32 bits. `ptx.py` compiles
modules in a child process, and `assembler.py` makes machine code.
"""

"""Emission of the loop IR as LLVM IR.

`llvm.py` translates statement by statement and decides nothing: alias information, unrolling,
order of reductions and effort are fields of the kernel. `loop_metadata.py` writes LLVM's loop
metadata; short loops that only store ask for whole vectors, the last under a mask where the
processor has mask registers.
"""

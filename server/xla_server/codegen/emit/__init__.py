"""Emission of the loop IR as LLVM IR.

`llvm.py` translates statement by statement and decides nothing: alias information, unrolling,
order of reductions and effort are fields of the kernel. `loop_metadata.py` writes LLVM's loop
metadata: requests to unroll or vectorise a loop, and to run its last iterations under a mask if the
processor has mask registers.
"""

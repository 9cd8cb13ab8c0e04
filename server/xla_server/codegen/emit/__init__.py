"""Emission of the loop IR as LLVM IR.

`llvm.py` translates statement by statement and makes no choices: alias information, unrolling,
order of reductions and optimisation level are fields of the kernel. `loop_metadata.py` writes
LLVM's loop metadata: requests to unroll a loop or to vectorise it, with a masked last vector if the
processor has mask registers.
"""

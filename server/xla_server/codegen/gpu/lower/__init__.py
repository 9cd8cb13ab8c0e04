"""Lowering of programs for a GPU: a table of opcodes, and the lowerings in it.

`table.py` has an entry for each opcode: kernels (`loop_nests` and the modules of single
operations), plans of libraries, or code for the host (`thunks/through_host.py`). Tuples, aliases
and control flow have the lowerings of processors.
"""

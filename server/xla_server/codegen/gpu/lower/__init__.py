"""Lowering of programs for a GPU: a table of the opcodes, and what its rows are made of.

`table.py` has a row for each opcode: kernels (`loop_nests` and the modules of single
operations), plans of libraries, or what a processor does (`thunks/through_host.py`). Tuples,
aliases and control flow have the rows of processors.
"""

"""Schedules: the loops that evaluate a scalar graph, as kernels in the loop IR.

`table.py` is the tuple of schedules; each states what it fits and why, and the first that fits is
taken. `builders/collapse.py` merges dimensions that all indices traverse like one.
`builders/graph_builder.py` evaluates each node in the innermost loop it varies with;
`builders/loop_builder.py` has loops of reductions; `nests/columns.py` reductions over leading
dimensions. Costly values of a row are kept in row buffers on the stack (`builders/row_buffers.py`).
Windows are combined in tiles on the stack, one axis at a time (`nests/windows.py`,
`nests/window_tiles.py`); long ones from partial results that neighbours share
(`nests/window_levels.py`). `reductions/sum_levels.py` splits long sums into short runs and sums of
their results, by sizes alone: the bits do not depend on threads, and errors grow as in pairwise
summation.

Special loop nests: split where the parts of a concatenate or pad meet (`nests/pieces.py`), several
results interleaved for interior padding (`nests/interleaved.py`), blocks of short rows
(`nests/short_rows.py`). A chunk of work items costs at least 8 times the prologue that each call
repeats (`builders/launches/chunks.py`).
"""

"""Loop fusion, output fusion and multi-output fusion: the choice of instructions for each kernel.

`pipeline.py` has the passes in order; their docstrings say what they fuse. Reductions over trailing
dimensions, with one result per row, are computed at the head of the row's loop, so softmax and
layer norm are one kernel. Elements that are read at several indices are computed once for each;
`analysis/index_maps.py` counts them, and an instruction with more than a few is stored. Kernels on
the longest path to an instruction (`analysis/levels.py`) exclude cycles of fusions.

A fusion has at most `max_instructions`, and indices of at most `max_index_terms` terms
(`target/fusion_tuning.py`). One that fails to compile is lowered instruction by instruction,
counted and logged.
"""

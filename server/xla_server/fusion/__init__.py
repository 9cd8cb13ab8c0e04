"""Loop fusion, output fusion and multi-output fusion: which instructions share a kernel.

`pipeline.py` has the passes in order. `loop_fusion.py` goes from results to operands and decides
for each instruction whether it is computed where it is read, or stored. Reductions over trailing
dimensions whose result is the same for a row are computed at the head of the row's loop, so
softmax and layer norm are one kernel. Elements that are read at several indices are computed once
for each; `analysis/index_maps.py` counts them, and an instruction with more than a few is stored.
`recomputation_guard.py` takes an instruction out of a fusion if storing it costs less, by counts
that code generation provides (`CostModel`). `output_fusion.py` puts what follows a product or
a convolution into its epilogue. `multi_output_fusion.py` joins loops over the same elements, where
levels (`analysis/levels.py`: kernels on the longest path to an instruction) exclude a cycle.
`update_barriers.py` stores what is computed from an array's old version before the new version
overwrites it.

A fusion has at most `max_instructions`, and indices of at most `max_index_terms` terms
(`target/fusion_tuning.py`). One that fails to compile is lowered instruction by instruction,
counted and logged.
"""

"""Lowering of instructions to thunks and kernels.

`lowerings.py` has a row per opcode: its lowering, the pass that expands it, or why it is not
compiled. Elementwise code, reductions and data movement go through `trace` and `loop_nests`. These
have kernels of their own: products and convolutions (`contraction`), Fourier transforms, scatters
and sorts (`indexing`), running reductions, transposes, LAPACK calls by symbol (`linear_algebra`),
and small loops of scalars (`control`). The docstrings of their modules say which form is used when.

`loop_nests/epilogue.py` computes fused instructions after each block of a product.
`recomputation.py` implements fusion's cost model. Results of convolutions that are NaN where a
window meets padding or holes are recomputed without these (`contraction/exact_sums.py`).
"""

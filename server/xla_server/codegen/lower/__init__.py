"""Lowering of instructions to thunks and kernels.

`lowerings.py` has a row per opcode: its lowering, the pass that expands it, or why it is not
compiled. Elementwise code, reductions and data movement go through `trace` and `loops`. These have
kernels of their own:

- Products: packed panels and register tiles, packed once for all threads or per work item; a large
  matrix times few vectors is read once from its own memory; BLAS for complex and narrow cases.
- Convolutions: register tiles, Winograd for 3x3 of f32, products for 1x1, else im2col. Results
  that are NaN where a window meets padding or holes are summed again without these
  (`contraction/exact_sums.py`).
- Fourier transforms: Stockham passes over blocks, long lines in two steps, large primes by Rader's
  or Bluestein's convolution.
- Scatters: threads share dimensions that indices do not reach, blocks of updates whose positions
  are declared unique, else ranges of the result. The bits are those of one work item.
- Concatenates: operands in memory are copied by shared functions that read a constant table.
- Small loops of scalars as one kernel (`control/small_loop.py`), and LAPACK calls by symbol.

`loop_nests/epilogue.py` puts fused instructions behind a product's blocks. `recomputation.py`
implements fusion's cost model.
"""

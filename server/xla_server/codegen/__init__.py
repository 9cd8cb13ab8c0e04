"""Compilation of HLO modules to machine code, for one target.

Each package imports only those after it (import-linter):

- `lower`: thunks and kernels of instructions, one row per opcode.
- `gpu`: kernels for GPUs: schedules, LLVM IR, PTX.
- `schedules`: they turn a scalar graph into loops.
- `trace`: the graph of scalars at symbolic indices, and its rules.
- `kernel.py`: kernels to machine code, by `emit` (loop IR to LLVM IR) and `namespace.py`.
- `routines`: functions that many kernels call: tiles, panels, sorting, blocks of factorizations.
- `functions`: elementary functions.
- `compiler`: LLVM IR, and functions of Python, to object code in memory and on disk.
- `instructions`: what all of it is written in: memory, BLAS and LAPACK symbols, intrinsics.
- `kernel_ir`: the typed loop IR.

Four fifths of it serve every platform. For processors alone are products, convolutions, sorts and
scatters (`lower`, `routines`), and the way into this process (`kernel.py`); import-linter has the
list, which `gpu` and what is shared do not import.

docs/NATIVE_CODE.md has the ways to write native code, docs/KERNELS.md one program step by step.
"""

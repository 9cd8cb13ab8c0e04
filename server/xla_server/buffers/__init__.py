"""Thunks over values, their liveness, and buffer assignment.

`code.py` is a compiled program as one flat sequence of thunks: kernels, copies, jumps, calls of the
host. Loops and conditionals are jumps, and calls are inlined, so the executor needs no stack.
Tuples exist only at compile time. `liveness.py` has the lifetimes of values as intervals of thunks,
by a walk over `control_flow.py`; `arena.py` finds memory that is free in a lifetime.
`assignment.py` gives each value its memory: argument, constant, result or arena. Source and target
of a copy share memory if their lifetimes allow it, so the state of a loop and the operand of a
dynamic-update-slice or scatter reuse the memory of their old value. A loop whose next state cannot
do so has two iterations, each in memory of its own (`double_buffers.py`). Arena, constants and
results are known before a run (`MemoryUse`). `work.py` counts the operations of the module and of
its code.
"""

"""The loop IR of kernels: typed statements between the scalar graph and the machine.

`codegen/schedules` turns a scalar graph (`codegen/trace`) into a `Kernel`. Emitters turn
that into LLVM (`codegen/emit`) or into numba source (`numba_text`), the readable form. They decide
nothing: every choice is a field of a node. Instructions on integers are simplified as they are
made, by the tables of `integer_rules`; `simplifier` drops what does nothing in a finished kernel.
`verify` states the rules that kernels obey, and `walk` is the one traversal that analyses use.
`counts` is the cost model: what calls and work items cost is read from statements, and from what
routines say of their operands (`Routine.cost`).
"""

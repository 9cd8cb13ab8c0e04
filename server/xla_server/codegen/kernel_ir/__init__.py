"""The loop IR of kernels: typed statements between the scalar graph and the machine.

`codegen/schedules` turns a scalar graph (`codegen/trace`) into a `Kernel`. Emitters turn that into
LLVM (`codegen/emit`) or into numba source (`numba_text`), the readable form. Emitters decide
nothing: every choice is a field of a node. Instructions on integers are simplified as they are
made, by the tables of `integer_rules`; `simplifier` drops statements without effect from a finished
kernel. `verify` states the rules that kernels obey, and `walk` is the one traversal that analyses
use. `counts` is the cost model: costs of calls and work items are computed from statements, and
from the cost functions of routines (`Routine.cost`).
"""

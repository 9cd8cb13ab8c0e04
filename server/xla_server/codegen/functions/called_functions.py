"""Elementary functions that kernels call, in scalar and vector variants.

An inlined function costs some milliseconds of compilation in each loop. If little time is spent in
it, a call is as fast. Called functions and their vector variants are written by the same formulas
as inlined ones and have the same bits.
"""

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from xla_server.codegen.compiler.shared_functions import LANES, CalledFunction, SharedFunction
from xla_server.codegen.functions.complex.complex_values import SINES
from xla_server.codegen.functions.real import remainder
from xla_server.codegen.functions.table import FUNCTIONS
from xla_server.codegen.functions.values import ElementaryFunction, Value
from xla_server.codegen.instructions.instruction import of_types
from xla_server.codegen.instructions.intrinsics import ARITHMETIC
from xla_server.codegen.instructions.memory import COMPUTED
from xla_server.codegen.kernel_ir.analysis.counts import cost_of
from xla_server.codegen.kernel_ir.routine import out_of_line
from xla_server.ops.elementwise.elementwise_op import CostClass


class _Remainder(CalledFunction):
    """The remainder of floats, which is called unless the divisor is known to be a power of two."""

    def call(self, builder: Any, args: Sequence[Any]) -> Any:
        """Return the remainder of two floats."""
        x, y = args
        if isinstance(y, ir.Constant) and y.constant >= 1 and math.frexp(y.constant)[0] == 0.5:
            return remainder.by_power_of_two(Value(builder, x, self.type), y.constant).code
        return super().call(builder, args)


WITH_BRANCHES = frozenset(
    f"{name}_{kind}" for name in ("cos", "rem", "sin", "tan") for kind in LANES
)
"""Functions with a branch around code for rare arguments. Processors always call their vector
variants: inlined, the vectoriser would compute both sides of the branch."""

CALLED: dict[str, CalledFunction] = {
    out_of_line(name): (_Remainder if name in remainder.FORMULAS else CalledFunction)(function)
    for name, function in FUNCTIONS.items()
    if isinstance(function, ElementaryFunction)
    and (cost_of(name) >= CostClass.TRANSCENDENTAL or name in WITH_BRANCHES)
}
"""Functions that kernels can call out of line, by their names in kernels."""

ELEMENTARY: dict[str, SharedFunction] = {
    each.symbol: each
    for function in (SINES, *CALLED.values())
    for each in (function, *function.variants)
}
"""These, what other functions call, and the vector variants of both, by their symbols."""

LIKELY = frozenset(
    each.symbol
    for name in map(out_of_line, ("exp_f32", "log_f32", "cos_f32", "sin_f32"))
    for each in (CALLED[name], *CALLED[name].variants)
)
"""Symbols of functions that are compiled before a program needs them."""

REMAINDER = of_types(
    {COMPUTED[kind]: CALLED[out_of_line(f"rem_{kind}")] for kind in LANES}, ARITHMETIC["rem"]
)
"""The remainder of every type on processors: that of floats has a branch, and is called."""


def called(name: str) -> str:
    """Return the name of the out-of-line form of a function; its own name if it has none."""
    return out_of_line(name) if out_of_line(name) in CALLED else name

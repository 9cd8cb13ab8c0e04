"""Elementary functions that kernels call, in scalar and vector variants.

An inlined function costs some milliseconds of compilation in each loop. If little time is spent in
it, a call is as fast. An attribute of each function names its vector variants for LLVM's
vectoriser, which calls one of them for all lanes of a vector. They are written by the same formulas
as inlined functions and have the same bits; each is compiled separately, once.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import ir

from xla_server.codegen.compiler.shared_functions import SharedFunction
from xla_server.codegen.functions.real import remainder
from xla_server.codegen.functions.table import FUNCTIONS
from xla_server.codegen.functions.values import ElementaryFunction, Value
from xla_server.codegen.instructions.instruction import of_types
from xla_server.codegen.instructions.intrinsics import ARITHMETIC
from xla_server.codegen.instructions.memory import COMPUTED
from xla_server.codegen.kernel_ir.analysis.counts import cost_of
from xla_server.codegen.kernel_ir.routine import Routine, out_of_line
from xla_server.ops.elementwise.elementwise_op import CostClass

LANES: Mapping[str, Sequence[int]] = {"f32": (4, 8, 16), "f64": (2, 4, 8)}
"""Vector lengths, by element type, for which vector functions exist."""

_PURE = "nounwind willreturn memory(none)"
_KEPT = "llvm.compiler.used"


class _Variant(SharedFunction):
    """The variant of an elementary function for one vector length, which LLVM calls."""

    def __init__(self, function: ElementaryFunction, lanes: int) -> None:
        name = f"{function.__name__}_of_{lanes}"
        super().__init__(Routine(name, ()), lambda code, _: function.write(code))
        self._form = function.form(lanes)

    def declare(self, module: Any, attributes: str = _PURE) -> Any:
        """Return the function's declaration in a module."""
        known = module.globals.get(self.symbol)
        return known or _Declaration(module, self._form, self.symbol, attributes)


class CalledFunction(_Variant):
    """The instruction that calls an elementary function out of line."""

    is_for_elements = True

    def __init__(self, function: ElementaryFunction) -> None:
        super().__init__(function, 1)
        self.__name__ = out_of_line(function.__name__)
        self.type = function.type
        self.variants = [_Variant(function, lanes) for lanes in LANES[function.type]]
        operands = "v" * function.operands
        names = ",".join(
            f"_ZGV_LLVM_N{lanes}{operands}_{self.symbol}({variant.symbol})"
            for lanes, variant in zip(LANES[function.type], self.variants, strict=True)
        )
        self._attributes = f'{_PURE} "vector-function-abi-variant"="{names}"'
        self._define = lambda context, *given: (function.checked(given), self._call)

    def _call(self, context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        module = builder.module
        if self.symbol not in module.globals:
            kept = module.globals.get(_KEPT) or _Kept(module)
            kept.symbols += [variant.declare(module).name for variant in self.variants]
        return builder.call(self.declare(module, self._attributes), args)


class _Remainder(CalledFunction):
    """The remainder of floats, which is called unless the divisor is known to be a power of two."""

    def _call(self, context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> Any:
        x, y = args
        if isinstance(y, ir.Constant) and y.constant >= 1 and math.frexp(y.constant)[0] == 0.5:
            return remainder.by_power_of_two(Value(builder, x, self.type), y.constant).code
        return super()._call(context, builder, signature, args)


class _Declaration(ir.Function):  # type: ignore[misc]
    """A declaration with attributes that llvmlite cannot represent."""

    def __init__(self, module: Any, form: Any, symbol: str, attributes: str) -> None:
        super().__init__(module, form, symbol)
        self._attributes = attributes

    def descr(self, buf: list[str]) -> None:
        """Append the text."""
        form, operands = self.ftype, ", ".join(map(str, self.ftype.args))
        buf.append(f"declare {form.return_type} @{self.name}({operands}) {self._attributes}\n")


class _Kept(ir.GlobalVariable):  # type: ignore[misc]
    """The global llvm.compiler.used, which keeps variants until the vectoriser refers to them."""

    def __init__(self, module: Any) -> None:
        super().__init__(module, ir.IntType(8), _KEPT)
        self.symbols: list[str] = []

    def descr(self, buf: list[str]) -> None:
        """Append the text."""
        pointers = ", ".join(f"ptr @{symbol}" for symbol in self.symbols)
        form = f"[{len(self.symbols)} x ptr] [{pointers}]"
        buf.append(f'appending global {form}, section "llvm.metadata"\n')


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

VARIANTS: dict[str, SharedFunction] = {
    variant.symbol: variant for function in CALLED.values() for variant in function.variants
}
"""Vector variants that LLVM's vectoriser calls instead of CALLED, by their symbols."""

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

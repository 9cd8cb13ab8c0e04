"""Functions of elements that kernels call out of line, with variants for vectors.

An attribute of each function names its vector variants for LLVM's vectoriser, which calls one of
them for all lanes of a vector. Each is compiled separately, once.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import ir

from xla_server.codegen.compiler.shared_functions import SharedFunction
from xla_server.codegen.functions.values import ElementaryFunction
from xla_server.codegen.kernel_ir.routine import Routine, out_of_line

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
        self._define = lambda _, *given: (
            function.checked(given),
            lambda _context, builder, _signature, args: self.call(builder, args),
        )

    def call(self, builder: Any, args: Sequence[Any]) -> Any:
        """Return the result for LLVM values."""
        module = builder.module
        if self.symbol not in module.globals:
            kept = module.globals.get(_KEPT) or _Kept(module)
            kept.symbols += [variant.declare(module).name for variant in self.variants]
        return builder.call(self.declare(module, self._attributes), args)


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

"""Functions that many kernels call and that are compiled once.

Hot code that depends on no program is such a function, so that the kernels that call it are short,
and quickly compiled. A kernel's object code refers to its callees by symbols. These must have been
loaded before.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from llvmlite import ir
from numba import types

from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.compiler.llvm_text import Declaration, FunctionText, ModuleText
from xla_server.codegen.compiler.python_compiler import write_function
from xla_server.codegen.instructions.instruction import Instruction, instruction, instruction_of
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import Routine, out_of_line
from xla_server.target.machine import Machine

Write = Callable[[Any, Machine], None]
"""Writes the body of an LLVM function without blocks, for a machine."""

_PREFIX = "xla_shared_"
_WORD = ir.IntType(64)
_LOCK = threading.Lock()


class SharedFunction(Instruction):
    """The function of a routine, over int64; it returns an int64, or nothing.

    `write` writes its code. If it `is_for_elements`, a vectorised loop calls it for a vector of
    elements.
    """

    is_for_elements = False

    def __init__(
        self,
        routine: Routine,
        write: Write,
        effort: Effort = Effort.WRITTEN,
    ) -> None:
        self.routine = routine
        self.symbol = f"{_PREFIX}{routine.name}"
        self._write = write
        self._effort = effort
        self._objects: dict[Machine, bytes] = {}
        count = len(routine.parameters)
        result = _WORD if routine.results else ir.VoidType()
        self._form = ir.FunctionType(result, [_WORD] * count)
        kind = types.int64 if routine.results else types.void

        def generate(context: Any, b: Any, signature: Any, args: Sequence[Any]) -> Any:
            called = b.call(self._declared(b.module), args)
            return called if routine.results else context.get_dummy_value()

        def define(typing_context, *operands):  # type: ignore[no-untyped-def]
            return kind(*[types.int64] * count), generate

        define.__name__ = routine.name
        super().__init__(define)

    def _declared(self, module: Any) -> Any:
        """Return the function's declaration in a module, added if it is missing."""
        known = module.globals.get(self.symbol)
        return known or ir.Function(module, self._form, self.symbol)

    def address(self) -> Instruction:
        """Return an instruction for the function's address, to be passed as an argument."""
        address: Instruction = instruction_of(types.int64())(
            lambda b: b.ptrtoint(self._declared(b.module), _WORD)
        )
        address.__name__ = f"{self.__name__}_address"
        return address

    def object_code(self, machine: Machine) -> bytes:
        """Return the object code for a machine, compiled once per process."""
        with _LOCK:
            code = self._objects.get(machine)
            if code is None:
                code = object_of_module(self._module(machine), machine, self._effort)
                self._objects[machine] = code
            return code

    def _module(self, machine: Machine) -> Any:
        module = ir.Module(self.symbol)
        self._write(ir.Function(module, self._form, self.symbol), machine)
        return module


class PythonFunction(SharedFunction):
    """A shared function whose code is that of a function of Python."""

    def __init__(self, routine: Routine, function: Callable[..., Any], effort: Effort) -> None:
        super().__init__(routine, lambda code, _: write_function(code, function), effort)
        self.function = function


class TextFunction(SharedFunction):
    """A shared function whose code is LLVM's text.

    `code` writes the body and returns the name of the result, if there is one; `begin` makes the
    writer for it.
    """

    def __init__(
        self,
        routine: Routine,
        code: Callable[[Any], str | None],
        effort: Effort = Effort.WRITTEN,
        begin: Callable[[Declaration], FunctionText] = FunctionText,
    ) -> None:
        super().__init__(routine, lambda *_: None, effort)
        self._names, self._code, self._begin = routine.names, code, begin

    def _module(self, machine: Machine) -> Any:
        f = self._begin(Declaration(self.symbol, self._names, machine))
        return ModuleText(f.text(self._code(f) or ""))


LANES: Mapping[str, Sequence[int]] = {"f32": (4, 8, 16), "f64": (2, 4, 8)}
"""Vector lengths, by element type, for which vector functions exist."""

_PURE = "nounwind willreturn memory(none)"
_KEPT = "llvm.compiler.used"


class _Variant(SharedFunction):
    """The variant of an elementary function for one vector length, which LLVM calls."""

    def __init__(self, function: Any, lanes: int) -> None:
        name = f"{function.__name__}_of_{lanes}"
        super().__init__(Routine(name, ()), lambda code, _: function.write(code))
        self._form = function.form(lanes)

    def declare(self, module: Any, attributes: str = _PURE) -> Any:
        """Return the function's declaration in a module."""
        known = module.globals.get(self.symbol)
        return known or _Declaration(module, self._form, self.symbol, attributes)


class CalledFunction(_Variant):
    """The instruction that calls an `ElementaryFunction` out of line.

    An attribute names its vector variants for LLVM's vectoriser, which calls one of them for all
    lanes of a vector.
    """

    is_for_elements = True

    def __init__(self, function: Any) -> None:
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
        self._define = lambda _, *arguments: (
            function.checked(arguments),
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


@instruction
def call_at(typing_context, address, *operands):  # type: ignore[no-untyped-def]
    """Call the function of int64 at an address, which returns nothing."""
    words = [types.int64] * len(operands)

    def generate(context: Any, b: Any, signature: Any, args: Sequence[Any]) -> Any:
        form = ir.FunctionType(ir.VoidType(), [_WORD] * len(words))
        b.call(b.inttoptr(args[0], ir.PointerType(form)), args[1:])
        return context.get_dummy_value()

    return types.void(types.int64, *words), generate


def by_name(functions: Iterable[SharedFunction]) -> dict[str, SharedFunction]:
    """Return functions by their names in kernels."""
    return {function.__name__: function for function in functions}


def with_addresses(functions: Iterable[SharedFunction]) -> dict[str, Instruction]:
    """Return functions by their names in kernels, and the instructions for their addresses."""
    found = by_name(functions)
    addresses = [function.address() for function in found.values()]
    return {**found, **{address.__name__: address for address in addresses}}

"""Elementary functions on numbers: the LLVM code that their formulas write, run by Python.

A formula (`codegen/functions`) has blocks and no loops. Integers are Python's, without sign and
modulo 2^width; floats are numpy scalars; pointers are the bytes of a table with an offset.
"""

import ctypes
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target

from tests.example_platform.memory import DTYPES
from xla_server.codegen.compiler.python_values import FORMS
from xla_server.codegen.functions.complex.complex_values import SIN_AND_COS, SINES
from xla_server.codegen.functions.table import FUNCTIONS
from xla_server.codegen.functions.values import ElementaryFunction
from xla_server.codegen.instructions.instruction import Instruction
from xla_server.codegen.instructions.memory import COMPUTED
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.namespace import vocabulary
from xla_server.target.machine import Machine

Number = Any
Step = tuple[Callable[..., Number], tuple[int, ...], int]
"""A function of numbers, the positions of its operands, and that of its result."""

_LIBM = ctypes.CDLL("libm.so.6")
for _name, _kind in (("fma", ctypes.c_double), ("fmaf", ctypes.c_float)):
    _function = getattr(_LIBM, _name)
    _function.argtypes, _function.restype = [_kind] * 3, _kind


class UnsupportedKernelError(Exception):
    """A kernel has something that the walker does not define."""


def fused(x: Number, y: Number, z: Number) -> Number:
    """Return x * y + z, rounded once."""
    if isinstance(x, np.float32):
        return np.float32(_LIBM.fmaf(float(x), float(y), float(z)))
    return np.float64(_LIBM.fma(x, y, z))


class Formula:
    """An instruction of kernels for operands of these types; by default the one of this name."""

    def __init__(
        self, name: str, operands: Sequence[Type], called: Instruction | None = None
    ) -> None:
        function = _written(name, operands, called)
        self._positions: dict[int, int] = {}
        self._start: list[Number] = []
        for argument in function.args:
            self._new(argument, None)
        self._entry = function.entry_basic_block
        self._blocks = {block: self._block(block) for block in function.blocks}

    def __call__(self, *operands: Number) -> Number:
        """Return the result for numbers as `to_formula` makes them."""
        slots = [*operands, *self._start[len(operands) :]]
        before, block = None, self._entry
        while True:
            phis, steps, chosen, targets = self._blocks[block]
            for sources, output in phis:
                slots[output] = slots[sources[before]]
            for function, inputs, output in steps:
                slots[output] = function(*[slots[each] for each in inputs])
            if not targets:
                return slots[chosen]
            before, block = block, targets[0 if chosen is None or slots[chosen] else 1]

    def _block(self, block: Any) -> tuple[list[Any], list[Step], Any, Sequence[Any]]:
        """The numbers that depend on the block before, all others, and how the block ends.

        The end is the position of the result and no block, or that of a predicate and two blocks.
        """
        phis, steps = [], []
        *instructions, end = block.instructions
        for each in instructions:
            if isinstance(each, ir.instructions.PhiInstr):
                sources = {other: self._position(value) for value, other in each.incomings}
                phis.append((sources, self._new(each, None)))
            else:
                steps.append(self._step(each))
        if isinstance(end, ir.instructions.Ret):
            return phis, steps, self._position(end.operands[0]), ()
        *predicate, target = end.operands
        if not predicate:
            return phis, steps, None, (target,)
        return phis, steps, self._position(predicate[0]), (predicate[1], target)

    def _new(self, value: Any, number: Number) -> int:
        position = self._positions[id(value)] = len(self._start)
        self._start.append(number)
        return position

    def _position(self, value: Any) -> int:
        known = self._positions.get(id(value))
        return self._new(value, _constant(value)) if known is None else known

    def _step(self, instruction: Any) -> Step:
        is_call = isinstance(instruction, ir.instructions.CallInstr)
        operands = instruction.args if is_call else instruction.operands
        inputs = tuple(map(self._position, operands))
        return _operation(instruction), inputs, self._new(instruction, None)


def _written(name: str, operands: Sequence[Type], called: Instruction | None) -> Any:
    """Return the LLVM function that an instruction of kernels stands for."""
    plain = name.removeprefix("called_")
    if called is None:
        called = FUNCTIONS.get(plain) or vocabulary(Machine.avx2(cores=1)).names.get(plain)
    if not isinstance(called, Instruction):
        raise UnsupportedKernelError(f"an instruction must be one of kernels, got {name}")
    module = ir.Module()
    if isinstance(called, ElementaryFunction):
        function = ir.Function(module, called.form(), name)
        called.write(function)
        return function
    signature = called.signature(None, tuple(COMPUTED[kind] for kind in operands))
    forms = [FORMS[kind] for kind in signature.args]
    given = signature.return_type
    if isinstance(given, types.UniTuple):
        result = ir.ArrayType(FORMS[given.dtype], given.count)
    else:
        result = FORMS[given]
    function = ir.Function(module, ir.FunctionType(result, forms), name)
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    builder.ret(
        called.code(signature)(cpu_target.target_context, builder, signature, function.args)
    )
    return function


@functools.cache
def formula(
    name: str,
    operands: tuple[Type, ...],
    result: Type | tuple[Type, ...],
    called: Instruction | None = None,
) -> Callable[..., Any]:
    """Return an instruction of kernels as a function of numpy scalars of these types.

    It returns a tuple where the instruction has several results. The instruction is `called`, or
    the one that kernels for processors know by its name.
    """
    found = Formula(name, operands, called)
    if isinstance(result, Type):
        return lambda *scalars: _from_formula(found(*map(to_formula, scalars)), result)
    return lambda *scalars: tuple(
        _from_formula(number, kind)
        for number, kind in zip(found(*map(to_formula, scalars)), result, strict=True)
    )


def to_formula(scalar: Any) -> Number:
    """Return a numpy scalar as formulas have it."""
    if isinstance(scalar, np.integer | np.bool_):
        return int(scalar) & ((1 << (8 * scalar.dtype.itemsize)) - 1)
    if isinstance(scalar, np.complexfloating):
        return (scalar.real, scalar.imag)
    return scalar


def _from_formula(number: Number, result: Type) -> Any:
    dtype = DTYPES[result]
    if dtype.kind == "c":
        return np.array(number).view(dtype)[0]
    if dtype.kind == "f":
        return number
    return np.array(number, f"u{dtype.itemsize}").view(dtype)[()]


def _constant(value: Any) -> Number:
    if isinstance(value, ir.GlobalVariable):
        return bytes(value.initializer.constant), 0
    if not isinstance(value, ir.Constant):
        raise UnsupportedKernelError(f"an operand must be a constant or a result, got {value}")
    return _number(value.type, value.constant)


def _number(form: Any, constant: Any) -> Number:
    match form:
        case ir.IntType(width=width):
            return 0 if constant is ir.Undefined else int(constant) & ((1 << width) - 1)
        case ir.FloatType():
            return np.float32(constant)
        case ir.DoubleType():
            return np.float64(constant)
        case ir.ArrayType(count=count) if constant is ir.Undefined:
            return (None,) * count
        case ir.LiteralStructType():
            if constant is ir.Undefined:
                return (None,) * len(form.elements)
            return tuple(_number(part.type, part.constant) for part in constant)
    raise UnsupportedKernelError(f"a constant must be a number, got one of {form}")


def _signed(bits: int, width: int) -> int:
    return bits - (1 << width) if bits >> (width - 1) else bits


_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_FLOATS: dict[str, Callable[..., Number]] = {
    "fadd": operator.add,
    "fsub": operator.sub,
    "fmul": operator.mul,
    "fdiv": operator.truediv,
    "frem": np.fmod,
    "fneg": operator.neg,
}
_INTEGERS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": operator.lshift,
    "lshr": operator.rshift,
    "udiv": operator.floordiv,
    "urem": operator.mod,
}
_CALLED: dict[str, Callable[..., Number]] = {
    "fma": fused,
    "sqrt": np.sqrt,
    "nearbyint": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "fabs": np.abs,
    "copysign": np.copysign,
    "ctpop": int.bit_count,
}


def _operation(instruction: Any) -> Callable[..., Number]:
    """Return what an LLVM instruction computes."""
    form, name = instruction.type, instruction.opname
    if isinstance(instruction, ir.instructions.CompareInstr):
        return _comparison(instruction)
    if isinstance(instruction, ir.instructions.CastInstr):
        return _conversion(name, instruction.operands[0].type, form)
    if name in _FLOATS:
        return _FLOATS[name]
    if name in _INTEGERS:
        function, mask = _INTEGERS[name], (1 << form.width) - 1
        return lambda x, y: function(x, y) & mask
    match name:
        case "ashr":
            return lambda x, y: (_signed(x, form.width) >> y) & ((1 << form.width) - 1)
        case "sdiv" | "srem":
            return functools.partial(_divided, name, form.width)
        case "select":
            return lambda test, x, y: x if test else y
        case "extractvalue":
            (index,) = instruction.indices
            return lambda pair: pair[index]
        case "insertvalue":
            (index,) = instruction.indices
            return lambda pair, part: (*pair[:index], part, *pair[index + 1 :])
        case "getelementptr":
            size = 8
            return lambda pointer, index: (pointer[0], pointer[1] + size * index)
        case "load":
            return lambda pointer: np.frombuffer(pointer[0], np.float64, 1, pointer[1])[0]
        case "call":
            return _called(instruction)
    raise UnsupportedKernelError(f"an instruction of a formula must be known, got {instruction}")


def _divided(name: str, width: int, x: int, y: int) -> int:
    left, right = _signed(x, width), _signed(y, width)
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return (quotient if name == "sdiv" else left - quotient * right) & ((1 << width) - 1)


def _comparison(instruction: Any) -> Callable[..., Number]:
    relation = instruction.op
    if instruction.opname == "icmp":
        width = instruction.operands[0].type.width
        compare = _RELATIONS[relation[-2:]]
        if relation[0] == "s":
            return lambda x, y: int(compare(_signed(x, width), _signed(y, width)))
        return lambda x, y: int(compare(x, y))
    compare, if_nan = _RELATIONS[relation[1:]], int(relation[0] == "u")
    return lambda x, y: if_nan if x != x or y != y else int(compare(x, y))


def _called(instruction: Any) -> Callable[..., Number]:
    name = instruction.callee.name
    kinds = tuple(_type_of(operand.type) for operand in instruction.args)
    if name == SINES.symbol:
        return Formula(name, kinds, SIN_AND_COS)
    if not name.startswith("llvm."):
        return Formula(name.removeprefix("xla_"), kinds)
    _, family, *_ = name.split(".")
    width = getattr(instruction.args[0].type, "width", 0)
    match family:
        case "ctlz":
            return lambda x, _: width - x.bit_length()
        case "maximum" | "minimum":
            choose = np.maximum if family == "maximum" else np.minimum
            return lambda x, y: x + y if x == y == 0 and family == "maximum" else choose(x, y)
    if family not in _CALLED:
        raise UnsupportedKernelError(f"an intrinsic of a formula must be known, got {name}")
    return _CALLED[family]


def _type_of(form: Any) -> Type:
    match form:
        case ir.IntType(width=1):
            return Type.B1
        case ir.IntType(width=width):
            return Type(f"i{width}")
        case ir.FloatType():
            return Type.F32
        case ir.DoubleType():
            return Type.F64
    raise UnsupportedKernelError(f"an operand must be a number, got {form}")


_DTYPES: dict[str, Any] = {
    "half": np.dtype(np.float16),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
}


def _conversion(name: str, source: Any, target: Any) -> Callable[[Number], Number]:
    width = getattr(target, "width", 0)
    mask, dtype = (1 << width) - 1, _DTYPES.get(str(target))
    match name:
        case "trunc" | "zext":
            return lambda x: x & mask
        case "sext":
            return lambda x: _signed(x, source.width) & mask
        case "fptosi" | "fptoui":
            return lambda x: int(x) & mask if math.isfinite(x) else 0
        case "bitcast" if isinstance(target, ir.PointerType):
            return lambda pointer: pointer
        case "bitcast" if dtype is None:
            return lambda x: int(x.view(f"u{width // 8}"))
        case "bitcast":
            return lambda bits: np.array(bits, f"u{dtype.itemsize}").view(dtype)[()]
        case "sitofp":
            return lambda x: dtype.type(_signed(x, source.width))
        case "uitofp" | "fptrunc" | "fpext":
            return lambda x: dtype.type(x)
    raise UnsupportedKernelError(f"a conversion of a formula must be known, got {name}")

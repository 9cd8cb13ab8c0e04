"""An embedded language for scalar code: operators on `Value` emit LLVM instructions.

An elementary function is a Python function over Values. It runs once per process, and each
operation emits one LLVM instruction; for kernels the whole function is one instruction. f32 is
never promoted to f64. Branches prevent vectorisation: only functions that loops call
(`called_functions`) have one, by `where_rare`.
"""

import abc
import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from llvmlite import ir

from xla_server.codegen.functions.function_text import KeptText
from xla_server.codegen.instructions.instruction import Instruction, check_count
from xla_server.codegen.instructions.intrinsics import call
from xla_server.codegen.instructions.memory import COMPUTED, REGISTERS, read_only

Number = float | int

Coefficients = Mapping[str, tuple[float, ...]]
"""Coefficients of a minimax polynomial by element type, constant term first. They are computed, and
formatted, by `python -m tests.ulps.fits`."""


class Lanes(ir.VectorType):  # type: ignore[misc]
    """LLVM's vector type of several numbers."""

    def __init__(self, name: str, count: int) -> None:
        super().__init__(REGISTERS[name], count)
        self.intrinsic_name = f"v{count}{name}"


@dataclasses.dataclass(frozen=True, slots=True)
class Format:
    """The layout of a float type: fraction bits, exponent bias, integer type of its width."""

    fraction: int
    bias: int
    bits: str


FORMAT = {"f32": Format(23, 127, "i32"), "f64": Format(52, 1023, "i64")}


class Operand(abc.ABC):
    """A value on which each operator emits one instruction.

    Python numbers as the other operand take its type.
    """

    __slots__ = ()

    builder: Any
    code: Any

    @property
    def is_float(self) -> bool:
        """Return whether it is a float or a vector of floats."""
        form = self.code.type
        return not isinstance(getattr(form, "element", form), ir.IntType)

    @abc.abstractmethod
    def constant(self, number: Number) -> Self:
        """A number of this value's type."""

    @abc.abstractmethod
    def made(self, code: Any) -> Self:
        """A result of the builder, of this value's type."""

    def coerced(self, other: Self | Number) -> Any:
        """Return the LLVM value of the other operand."""
        return (other if isinstance(other, Operand) else self.constant(other)).code

    def _binary(self, method: str, other: Self | Number) -> Self:
        return self.made(getattr(self.builder, method)(self.code, self.coerced(other)))

    def arithmetic(self, name: str, other: Self | Number) -> Self:
        """Return the result of an instruction that has a float variant, such as add and fadd."""
        return self._binary(f"f{name}" if self.is_float else name, other)

    def __add__(self, other: Self | Number) -> Self:
        return self.arithmetic("add", other)

    __radd__ = __add__

    def __sub__(self, other: Self | Number) -> Self:
        return self.arithmetic("sub", other)

    def __mul__(self, other: Self | Number) -> Self:
        return self.arithmetic("mul", other)

    __rmul__ = __mul__

    def __and__(self, other: Self | int) -> Self:
        return self._binary("and_", other)

    def __or__(self, other: Self | int) -> Self:
        return self._binary("or_", other)

    def __xor__(self, other: Self | int) -> Self:
        return self._binary("xor", other)

    def __lshift__(self, other: Self | int) -> Self:
        return self._binary("shl", other)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Value(Operand):
    """An operand or result of an instruction, with its type's name."""

    builder: Any
    code: Any
    type: str

    @property
    def format(self) -> Format:
        """The layout of the value's float type."""
        return FORMAT[self.type]

    def form(self, name: str) -> Any:
        """Return the LLVM type of this value's number of lanes, with elements of another type."""
        form = self.code.type
        return Lanes(name, form.count) if isinstance(form, ir.VectorType) else REGISTERS[name]

    def constant(self, number: Number) -> "Value":
        """A constant of the type of this value."""
        plain = float(number) if self.is_float else int(number)
        return Value(self.builder, ir.Constant(self.form(self.type), plain), self.type)

    def made(self, code: Any, type_name: str | None = None) -> "Value":
        """Wrap a result of the builder, of this value's type unless another is passed."""
        return Value(self.builder, code, type_name or self.type)

    def _compared(self, relation: str, other: "Value | Number") -> "Value":
        b = self.builder
        compare = b.fcmp_ordered if self.is_float else b.icmp_signed
        if self.is_float and relation == "!=":
            compare = b.fcmp_unordered
        return self.made(compare(relation, self.code, self.coerced(other)), "b1")

    def __rsub__(self, other: Number) -> "Value":
        return self.constant(other) - self

    def __truediv__(self, other: "Value | Number") -> "Value":
        return self.arithmetic("div", other)

    def __rtruediv__(self, other: Number) -> "Value":
        return self.constant(other) / self

    def __neg__(self) -> "Value":
        return self.made(self.builder.fneg(self.code))

    def __abs__(self) -> "Value":
        return self.made(call(self.builder, "llvm.fabs", [self.code]))

    def __invert__(self) -> "Value":
        return self.made(self.builder.not_(self.code))

    def __rshift__(self, amount: "Value | int") -> "Value":
        return self.made(self.builder.ashr(self.code, self.coerced(amount)))

    def __lt__(self, other: "Value | Number") -> "Value":
        return self._compared("<", other)

    def __le__(self, other: "Value | Number") -> "Value":
        return self._compared("<=", other)

    def __gt__(self, other: "Value | Number") -> "Value":
        return self._compared(">", other)

    def __ge__(self, other: "Value | Number") -> "Value":
        return self._compared(">=", other)

    def equals(self, other: "Value | Number") -> "Value":
        """Compare for equality; False if either is NaN."""
        return self._compared("==", other)

    def differs(self, other: "Value | Number") -> "Value":
        """Compare for inequality; True if either is NaN."""
        return self._compared("!=", other)


def fma(x: Value, y: Value | Number, z: Value | Number) -> Value:
    """x * y + z, rounded once."""
    return x.made(call(x.builder, "llvm.fma", [x.code, x.coerced(y), x.coerced(z)]))


def select(predicate: Value, on_true: Value | Number, on_false: Value | Number) -> Value:
    """Select one of two values, at least one of them a Value; both are computed."""
    like = on_true if isinstance(on_true, Value) else on_false
    assert isinstance(like, Value)
    sides = like.coerced(on_true), like.coerced(on_false)
    return like.made(predicate.builder.select(predicate.code, *sides))


def where_rare(
    predicate: Value, rare: Callable[[], Sequence[Value]], usual: Sequence[Value]
) -> list[Value]:
    """Select the values of `rare` if the predicate holds, else the `usual` ones.

    A branch skips the code of `rare` if the predicate holds in no lane. It may be used only in
    separate LLVM functions: a kernel's emitter tracks the basic blocks of its loops.
    """
    b, before = predicate.builder, predicate.builder.block
    held = predicate.code
    if isinstance(held.type, ir.VectorType):
        mask = b.bitcast(held, ir.IntType(held.type.count))
        held = b.icmp_unsigned("!=", mask, ir.Constant(mask.type, 0))
    with b.if_then(held):
        chosen = [select(predicate, *pair) for pair in zip(rare(), usual, strict=True)]
        inside = b.block
    results = []
    for one, other in zip(chosen, usual, strict=True):
        phi = b.phi(one.code.type)
        phi.add_incoming(one.code, inside)
        phi.add_incoming(other.code, before)
        results.append(one.made(phi))
    return results


def at_most(x: Value, bound: Number) -> Value:
    """Return the smaller; the bound for NaN."""
    return select(x < bound, x, bound)


def clamped(x: Value, low: Number, high: Number) -> Value:
    """Clamp to [low, high]; NaN for NaN."""
    below = select(x > high, x.constant(high), x)
    return select(below < low, x.constant(low), below)


def _intrinsic(name: str) -> Callable[[Value], Value]:
    return lambda x: x.made(call(x.builder, f"llvm.{name}", [x.code]))


sqrt = _intrinsic("sqrt")
"""The square root, correctly rounded."""

rounded = _intrinsic("nearbyint")
"""The nearest integer, ties to even."""

floor = _intrinsic("floor")
"""The largest integer that is not above."""

truncated = _intrinsic("trunc")
"""The integer part, rounded towards zero."""

_SHIFTER = {"f32": 1.5 * 2.0**23, "f64": 1.5 * 2.0**52}
"""Number so large that a sum with it is rounded to an integer."""


def nearest(x: Value, factor: Value | float) -> tuple[Value, Value]:
    """Return (n, n): the integer nearest to x * factor, as a float and as an i32.

    For f32 it must be below 2^22, for f64 below 2^51; the i32 has its low 32 bits. This is faster
    than conversions, and yields some i32 for NaN, whose conversion is undefined.
    """
    shifted = fma(x, factor, _SHIFTER[x.type])
    whole = to("i32", bits(shifted))
    if x.type == "f32":
        whole = whole - 0x4B400000
    return shifted - _SHIFTER[x.type], whole


def with_sign(magnitude: Value, sign: Value) -> Value:
    """Return the magnitude with the sign of another value."""
    return magnitude.made(call(magnitude.builder, "llvm.copysign", [magnitude.code, sign.code]))


def with_sign_bit(magnitude: Value, sign: Value) -> Value:
    """Return the same for a non-negative magnitude, with one instruction less on AVX2."""
    negative = bits(sign) & -(1 << (int(sign.format.bits[1:]) - 1))
    return of_bits(bits(magnitude) | negative)


def bits(x: Value) -> Value:
    """The bits of a float as an integer of its width."""
    name = x.format.bits
    return x.made(x.builder.bitcast(x.code, x.form(name)), name)


def of_bits(x: Value) -> Value:
    """The float of an integer's width with these bits."""
    name = f"f{x.type[1:]}"
    return x.made(x.builder.bitcast(x.code, x.form(name)), name)


def to(name: str, x: Value) -> Value:
    """Convert to another type; floats are truncated and must fit."""
    if x.type == name:
        return x
    b, target = x.builder, x.form(name)
    if x.is_float and name in FORMAT:
        return x.made((b.fpext if name == "f64" else b.fptrunc)(x.code, target), name)
    if x.is_float:
        return x.made(b.fptosi(x.code, target), name)
    if name in FORMAT:
        return x.made(b.sitofp(x.code, target), name)
    return x.made((b.sext if name == "i64" else b.trunc)(x.code, target), name)


def high_word(x: Value) -> Value:
    """Return the upper half of an i64, or an i32 itself, as i32."""
    if x.type == "i32":
        return x
    upper = x.builder.lshr(x.code, x.constant(32).code)
    return x.made(x.builder.trunc(upper, x.form("i32")), "i32")


def divided(x: Value, divisor: int) -> Value:
    """Divide a non-negative i32 by a constant."""
    return x.made(x.builder.udiv(x.code, x.constant(divisor).code))


def power_of_two(exponent: Value, name: str) -> Value:
    """Return 2^exponent as a float of type `name`; it must be a normal number."""
    form = FORMAT[name]
    return of_bits(to(form.bits, exponent + form.bias) << form.fraction)


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Return the sum of coefficients[k] x^k, for many coefficients in two chains."""
    return (horner if len(coefficients) < 7 else even_and_odd)(x, coefficients)


def even_and_odd(x: Value, coefficients: Sequence[float]) -> Value:
    """Return the same in chains of even and odd powers: half the latency, an instruction more."""
    square = x * x
    return fma(horner(square, coefficients[1::2]), x, horner(square, coefficients[::2]))


def horner(x: Value, coefficients: Sequence[float]) -> Value:
    """Return the same by Horner's rule: the fewest instructions, in one dependent chain."""
    total = x.constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = fma(total, x, coefficient)
    return total


def exact_sum(x: Value, y: Value) -> tuple[Value, Value]:
    """x + y and its rounding error."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def exact_sum_ordered(x: Value, y: Value) -> tuple[Value, Value]:
    """Return x + y and its rounding error, for |x| >= |y| or x = 0."""
    total = x + y
    return total, y - (total - x)


def exact_product(x: Value, y: Value) -> tuple[Value, Value]:
    """x * y and its rounding error."""
    product = x * y
    return product, fma(x, y, -product)


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """A table of f64 constants that is a global of each module that uses it."""

    name: str
    content: bytes

    def at(self, index: Value) -> Value:
        """Return the constant at an index, an i32 >= 0."""
        module = index.builder.module
        table = module.globals.get(self.name)
        if table is None:
            form = ir.ArrayType(ir.IntType(8), len(self.content))
            table = ir.GlobalVariable(module, form, self.name)
            table.linkage = "internal"
            table.global_constant = True
            table.align = 64
            table.initializer = ir.Constant(form, bytearray(self.content))
        b = index.builder
        pointer = b.bitcast(table, ir.PointerType(REGISTERS["f64"]))

        def load(number: Any) -> Any:
            loaded = b.load(b.gep(pointer, [b.zext(number, REGISTERS["i64"])], inbounds=True))
            read_only(module, loaded)
            return loaded

        if not isinstance(index.code.type, ir.VectorType):
            return index.made(load(index.code), "f64")
        found = ir.Constant(index.form("f64"), ir.Undefined)
        for lane in range(index.code.type.count):
            position = ir.Constant(REGISTERS["i32"], lane)
            number = b.extract_element(index.code, position)
            found = b.insert_element(found, load(number), position)
        return index.made(found, "f64")


class ElementaryFunction(Instruction):
    """The kernel instruction that computes `body` on operands of a float type.

    `body` returns one value, or as many as there are `results`, for other functions.

    Its code is part of the kernel's module, as a function that LLVM always inlines.
    """

    def __init__(
        self,
        name: str,
        body: Callable[..., Any],
        operands: int,
        type_name: str,
        results: int = 1,
    ) -> None:
        computed = COMPUTED[type_name]
        self.type = type_name
        self.operands = operands
        self._results = results
        self._signature = computed(*[computed] * operands)
        self._body = body
        self._symbol = f"xla_{name}"

        def define(_: Any, *arguments: Any) -> Any:
            return self.checked(arguments), lambda _context, b, _signature, args: self.call(b, args)

        define.__name__ = name
        super().__init__(define)

    def checked(self, arguments: Sequence[Any]) -> Any:
        """Return the signature. Raises TypeError for another number of operands."""
        check_count(self.operands, arguments)
        return self._signature

    def form(self, lanes: int = 1) -> Any:
        """Return the LLVM type of the function for vectors of `lanes` numbers."""
        form = REGISTERS[self.type] if lanes == 1 else Lanes(self.type, lanes)
        result = form if self._results == 1 else ir.LiteralStructType([form] * self._results)
        return ir.FunctionType(result, [form] * self.operands)

    def write(self, function: Any) -> None:
        """Write the code of an LLVM function of one of these types."""
        inside = ir.IRBuilder(function.append_basic_block("entry"))
        result = self._body(*(Value(inside, arg, self.type) for arg in function.args))
        if self._results == 1:
            inside.ret(result.code)
            return
        returned = ir.Constant(function.function_type.return_type, ir.Undefined)
        for number, part in enumerate(result):
            returned = inside.insert_value(returned, part.code, number)
        inside.ret(returned)

    @functools.cached_property
    def _text(self) -> KeptText | None:
        return KeptText.of(self._written(ir.Module()))

    def _written(self, module: Any) -> Any:
        function = ir.Function(module, self.form(), self._symbol)
        function.linkage = "internal"
        function.attributes.add("alwaysinline")
        self.write(function)
        return function

    def call(self, builder: Any, args: Sequence[Any]) -> Any:
        """Return the result for LLVM values: a struct of several results."""
        module = builder.module
        found = module.globals.get(self._symbol)
        if found is None:
            known = self._text
            found = self._written(module) if known is None else known.added_to(module)
        return builder.call(found, args)


def family(*bodies: Callable[..., Value], operands: int = 1) -> dict[str, Any]:
    """Return the functions for both types by name: exp_f32 and exp_f64 for `exp`."""
    functions = (
        ElementaryFunction(f"{body.__name__}_{name}", body, operands, name)
        for body, name in itertools.product(bodies, FORMAT)
    )
    return {function.__name__: function for function in functions}

"""LLVM values with operators, so that functions of bits read as formulas."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from llvmlite import ir

from xla_server.codegen.instructions.instruction import instruction_of
from xla_server.codegen.instructions.intrinsics import call
from xla_server.codegen.instructions.memory import COMPUTED

I1, I8, I16, I32, I64 = (ir.IntType(width) for width in (1, 8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()

LLVM_TYPE: dict[str, Any] = {
    "b1": I1,
    "f32": F32,
    "f64": F64,
    **{f"{kind}{width}": ir.IntType(width) for kind in "iu" for width in (8, 16, 32, 64)},
}
"""The type of a value in registers, by the name of its computed type."""


class Word:
    """An integer or float while a function is built.

    Operands may be Python numbers. Integers have no sign: `>>` brings in zeros, and comparisons
    say in their names what they take the bits for.
    """

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.value = value

    @property
    def type(self) -> Any:
        """The LLVM type."""
        return self.value.type

    def constant(self, number: float) -> "Word":
        """A number of this word's type."""
        return Word(self.builder, ir.Constant(self.type, number))

    def _operand(self, other: "Word | float") -> Any:
        return other.value if isinstance(other, Word) else ir.Constant(self.type, other)

    def _with(self, method: str, other: "Word | float") -> "Word":
        return Word(self.builder, getattr(self.builder, method)(self.value, self._operand(other)))

    def _arithmetic(self, name: str, other: "Word | float") -> "Word":
        return self._with(name if isinstance(self.type, ir.IntType) else f"f{name}", other)

    def __add__(self, other: "Word | float") -> "Word":
        return self._arithmetic("add", other)

    def __sub__(self, other: "Word | float") -> "Word":
        return self._arithmetic("sub", other)

    def __mul__(self, other: "Word | float") -> "Word":
        return self._arithmetic("mul", other)

    def __and__(self, other: "Word | int") -> "Word":
        return self._with("and_", other)

    def __or__(self, other: "Word | int") -> "Word":
        return self._with("or_", other)

    def __xor__(self, other: "Word | int") -> "Word":
        return self._with("xor", other)

    def __lshift__(self, other: "Word | int") -> "Word":
        return self._with("shl", other)

    def __rshift__(self, other: "Word | int") -> "Word":
        return self._with("lshr", other)

    def shifted_with_sign(self, other: "Word | int") -> "Word":
        """Bits moved down, copies of the highest moved in."""
        return self._with("ashr", other)

    def _compared(self, method: str, relation: str, other: "Word | float") -> "Word":
        compare = getattr(self.builder, method)
        return Word(self.builder, compare(relation, self.value, self._operand(other)))

    def unsigned(self, relation: str, other: "Word | int") -> "Word":
        """A relation of numbers that are not negative, or of equality."""
        return self._compared("icmp_unsigned", relation, other)

    def signed(self, relation: str, other: "Word | int") -> "Word":
        """A relation of numbers in two's complement."""
        return self._compared("icmp_signed", relation, other)

    def ordered(self, relation: str, other: "Word | float") -> "Word":
        """A relation of floats that NaN does not have to anything."""
        return self._compared("fcmp_ordered", relation, other)

    def choose(self, on_true: "Word", on_false: "Word | float") -> "Word":
        """on_true where this bit is set, else on_false."""
        other = on_true._operand(on_false)
        return Word(self.builder, self.builder.select(self.value, on_true.value, other))

    def at_most(self, highest: "Word | int") -> "Word":
        """The smaller of two numbers that are not negative."""
        return self.unsigned("<", highest).choose(self, highest)

    def at_least(self, lowest: "Word | int") -> "Word":
        """The larger of two numbers that are not negative."""
        return self.unsigned(">", lowest).choose(self, lowest)

    def as_bits(self) -> "Word":
        """The bits of a float as an integer."""
        return self.bitcast(I32 if self.type == F32 else I64)

    def bitcast(self, form: Any) -> "Word":
        """The bits read as a type of the same width."""
        return Word(self.builder, self.builder.bitcast(self.value, form))

    def converted(self, method: str, form: Any) -> "Word":
        """A change of type by the instruction of that name; none where it is the type already."""
        if self.type == form:
            return self
        return Word(self.builder, getattr(self.builder, method)(self.value, form))

    def resized(self, form: Any, *, signed: bool = False) -> "Word":
        """An integer with more or fewer bits."""
        if self.type.width > form.width:
            return self.converted("trunc", form)
        return self.converted("sext" if signed else "zext", form)

    def size(self) -> "Word":
        """The float without its sign."""
        return Word(self.builder, call(self.builder, "llvm.fabs", [self.value]))


Formula: TypeAlias = Callable[..., Word]
"""Function from the words of the operands to that of the result."""


def function(operands: Sequence[str], result: str, formula: Formula) -> Any:
    """Return a function of kernels from operands to a result of these types, by a formula."""
    of_types = instruction_of(COMPUTED[result](*[COMPUTED[name] for name in operands]))
    return of_types(lambda builder, *given: formula(*[Word(builder, arg) for arg in given]).value)

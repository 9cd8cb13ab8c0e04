"""LLVM values with operators, so that functions of bits read as formulas."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from llvmlite import ir

from xla_server.codegen.functions.values import Number, Operand
from xla_server.codegen.instructions.instruction import instruction_of
from xla_server.codegen.instructions.intrinsics import call
from xla_server.codegen.instructions.memory import COMPUTED

I8, I16, I32, I64 = (ir.IntType(width) for width in (8, 16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Word(Operand):
    """An integer or float while a function is built.

    Operands may be Python numbers. Integers have no sign: `>>` brings in zeros, and comparisons
    say in their names what they take the bits for.
    """

    builder: Any
    code: Any

    @property
    def type(self) -> Any:
        """The LLVM type."""
        return self.code.type

    def constant(self, number: Number) -> "Word":
        """A number of this word's type."""
        return self.made(ir.Constant(self.type, number))

    def made(self, code: Any) -> "Word":
        """A result of the builder."""
        return Word(self.builder, code)

    def __rshift__(self, other: "Word | int") -> "Word":
        return self._binary("lshr", other)

    def shifted_with_sign(self, other: "Word | int") -> "Word":
        """Bits moved down, copies of the highest moved in."""
        return self._binary("ashr", other)

    def _compared(self, method: str, relation: str, other: "Word | float") -> "Word":
        compare = getattr(self.builder, method)
        return self.made(compare(relation, self.code, self.coerced(other)))

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
        other = on_true.coerced(on_false)
        return self.made(self.builder.select(self.code, on_true.code, other))

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
        return self.made(self.builder.bitcast(self.code, form))

    def converted(self, method: str, form: Any) -> "Word":
        """A change of type by the instruction of that name; none where it is the type already."""
        if self.type == form:
            return self
        return self.made(getattr(self.builder, method)(self.code, form))

    def resized(self, form: Any) -> "Word":
        """An integer with fewer bits, or with zeros above its own."""
        return self.converted("trunc" if self.type.width > form.width else "zext", form)

    def size(self) -> "Word":
        """The float without its sign."""
        return self.made(call(self.builder, "llvm.fabs", [self.code]))


Formula: TypeAlias = Callable[..., Word]
"""Function from the words of the operands to that of the result."""


def function(operands: Sequence[str], result: str, formula: Formula) -> Any:
    """Return a function of kernels from operands to a result of these types, by a formula."""
    of_types = instruction_of(COMPUTED[result](*[COMPUTED[name] for name in operands]))
    return of_types(lambda builder, *given: formula(*[Word(builder, arg) for arg in given]).code)

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

    Operands may be Python numbers. Integers are signless: `>>` shifts in zeros, and comparisons
    have `signed` or `unsigned` as their name.
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
        """Return the arithmetic shift to the right."""
        return self._binary("ashr", other)

    def _compared(self, method: str, relation: str, other: "Word | float") -> "Word":
        compare = getattr(self.builder, method)
        return self.made(compare(relation, self.code, self.coerced(other)))

    def unsigned(self, relation: str, other: "Word | int") -> "Word":
        """Compare as unsigned integers, or for equality."""
        return self._compared("icmp_unsigned", relation, other)

    def signed(self, relation: str, other: "Word | int") -> "Word":
        """Compare as signed integers."""
        return self._compared("icmp_signed", relation, other)

    def ordered(self, relation: str, other: "Word | float") -> "Word":
        """Compare floats; False if either operand is NaN."""
        return self._compared("fcmp_ordered", relation, other)

    def choose(self, on_true: "Word", on_false: "Word | float") -> "Word":
        """Return `on_true` if this bit is set, else `on_false`."""
        other = on_true.coerced(on_false)
        return self.made(self.builder.select(self.code, on_true.code, other))

    def at_most(self, highest: "Word | int") -> "Word":
        """Return the smaller of two unsigned integers."""
        return self.unsigned("<", highest).choose(self, highest)

    def at_least(self, lowest: "Word | int") -> "Word":
        """Return the larger of two unsigned integers."""
        return self.unsigned(">", lowest).choose(self, lowest)

    def as_bits(self) -> "Word":
        """The bits of a float as an integer."""
        return self.bitcast(I32 if self.type == F32 else I64)

    def bitcast(self, form: Any) -> "Word":
        """The bits read as a type of the same width."""
        return self.made(self.builder.bitcast(self.code, form))

    def converted(self, method: str, form: Any) -> "Word":
        """Convert by the instruction of that name; no instruction if it has the type already."""
        if self.type == form:
            return self
        return self.made(getattr(self.builder, method)(self.code, form))

    def resized(self, form: Any) -> "Word":
        """Truncate an integer, or extend it with zeros."""
        return self.converted("trunc" if self.type.width > form.width else "zext", form)

    def size(self) -> "Word":
        """Return the absolute value of a float."""
        return self.made(call(self.builder, "llvm.fabs", [self.code]))


Formula: TypeAlias = Callable[..., Word]
"""Function from the operands' words to the result's."""


def function(operands: Sequence[str], result: str, formula: Formula) -> Any:
    """Return a kernel function with operands and a result of these types, computed by a formula."""
    of_types = instruction_of(COMPUTED[result](*[COMPUTED[name] for name in operands]))
    return of_types(
        lambda builder, *arguments: formula(*[Word(builder, arg) for arg in arguments]).code
    )

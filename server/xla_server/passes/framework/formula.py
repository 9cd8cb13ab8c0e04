"""Instructions with operators, so that arithmetic in passes reads as formulas."""

import dataclasses
from typing import TypeAlias

from xla_contract.ops.elementwise.compare import ComparisonDirection
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor

Operand: TypeAlias = "Term | float"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An instruction with arithmetic operators; a number operand becomes an array of its shape."""

    editor: Editor
    instruction: HloInstruction

    def apply(self, opcode: Opcode, *others: Operand) -> "Term":
        """Return the result of an operation on this term and others."""
        operands = (self.instruction, *(self.like(other).instruction for other in others))
        return Term(self.editor, self.editor.add(opcode, operands))

    def like(self, value: Operand) -> "Term":
        """Return a term: a number as an array of this shape."""
        if isinstance(value, Term):
            return value
        shape = self.instruction.shape
        return Term(self.editor, self.editor.full(value, shape.element_type, shape.dimensions))

    def converted(self, kind: ElementType) -> "Term":
        """Return the term in another type."""
        return Term(self.editor, self.editor.convert(self.instruction, kind))

    def __add__(self, other: Operand) -> "Term":
        return self.apply(Opcode.ADD, other)

    def __sub__(self, other: Operand) -> "Term":
        return self.apply(Opcode.SUBTRACT, other)

    def __rsub__(self, other: float) -> "Term":
        return self.like(other) - self

    def __mul__(self, other: Operand) -> "Term":
        return self.apply(Opcode.MULTIPLY, other)

    def __truediv__(self, other: Operand) -> "Term":
        return self.apply(Opcode.DIVIDE, other)

    def __and__(self, other: Operand) -> "Term":
        return self.apply(Opcode.AND, other)

    def __rshift__(self, other: Operand) -> "Term":
        return self.apply(Opcode.SHIFT_RIGHT_LOGICAL, other)

    def __lt__(self, other: "Term") -> "Term":
        direction = ComparisonDirection.LT
        return Term(
            self.editor, self.editor.compare(self.instruction, other.instruction, direction)
        )

    def choose(self, on_true: "Term", on_false: "Term") -> "Term":
        """Return a select between two terms by this predicate."""
        return self.apply(Opcode.SELECT, on_true, on_false)

"""Common subexpression elimination."""

import dataclasses
from typing import Any

import numpy as np

from xla_contract.types.opcode import Opcode
from xla_server.ir.analysis.side_effects import is_effectful
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.framework.editor import Editor, rewrite

_NEVER = frozenset({Opcode.PARAMETER, Opcode.RNG})
_LARGEST_CONSTANT = 4096
"""Largest compared constant, in bytes: comparing larger ones costs more than it saves."""


@dataclasses.dataclass(frozen=True)
class CommonSubexpressions:
    """Merges instructions with equal opcodes, attributes, operands and called computations."""

    name: str = "cse"

    def apply(self, module: HloModule) -> bool:
        """Merge within each computation; return whether anything was merged."""
        editor, equal = Editor(module), EqualComputations()
        changed = False
        # Callees come before callers, so the callees of a computation are known.
        for computation in module.computations:
            known: dict[object, HloInstruction] = {}

            def first(
                instruction: HloInstruction, known: dict[object, HloInstruction] = known
            ) -> HloInstruction | None:
                key = equal.key(instruction)
                if key is None:
                    return None
                return known.setdefault((key, instruction.operands), instruction)

            changed |= rewrite(computation, first, editor)
            if computation is not module.entry:
                equal.add(computation)
        return changed


class EqualComputations:
    """Keys of instructions by their semantics, regardless of names in called computations."""

    def __init__(self) -> None:
        # Computation -> the first equal one; None if its calls may differ from each other.
        self._first: dict[HloComputation, HloComputation | None] = {}
        self._texts: dict[object, HloComputation] = {}

    @classmethod
    def of_elements(cls, module: HloModule) -> "EqualComputations":
        """Return the keys for computations on elements: bodies of fusions, and their callees."""
        equal, sequential = cls(), set(module.sequential())
        for computation in module.computations:
            if computation not in sequential:
                equal.add(computation)
        return equal

    def add(self, computation: HloComputation) -> None:
        """Add a computation; its callees must have been added."""
        text = self._text(computation)
        known = None if text is None else self._texts.setdefault(text, computation)
        self._first[computation] = known

    def key(self, instruction: HloInstruction) -> object:
        """Return the key of an instruction without operands; None if it equals no other one."""
        if instruction.opcode in _NEVER or instruction.control_predecessors:
            return None
        shape = instruction.shape
        if instruction.opcode is Opcode.CONSTANT:
            value: Any = instruction.attributes.literal.value if shape.is_array else None
            if not isinstance(value, np.ndarray) or value.nbytes > _LARGEST_CONSTANT:
                return None
            return (instruction.opcode, shape, value.tobytes())
        called = tuple(self._first.get(callee) for callee in instruction.called)
        if None in called or is_effectful(instruction):
            return None
        return (instruction.opcode, shape, instruction.attributes, called)

    def function(self, instruction: HloInstruction) -> object:
        """Return the key of an instruction as a function of arrays; None if it equals no other one.

        Instructions with equal keys compute the same function of operands of the same shapes. The
        key includes scalar constants, and which operands are identical.
        """
        key = self.key(instruction)
        numbers: dict[HloInstruction, int] = {}
        operands = tuple(
            (
                numbers.setdefault(each, len(numbers)),
                each.shape,
                self.key(each) if each.shape.is_scalar and each.opcode is Opcode.CONSTANT else None,
            )
            for each in instruction.operands
        )
        return None if key is None else (key, operands)

    def _text(self, computation: HloComputation) -> object:
        """The text of a computation without names; None if its calls may differ from each other."""
        numbers = {part: number for number, part in enumerate(computation.instructions)}
        lines: list[object] = []
        for part in computation.instructions:
            if part.opcode is Opcode.PARAMETER:
                key: object = (part.opcode, part.shape, part.attributes.number)
            else:
                key = self.key(part)
            if key is None:
                return None
            lines.append((key, tuple(numbers[operand] for operand in part.operands)))
        return (tuple(lines), numbers[computation.root])

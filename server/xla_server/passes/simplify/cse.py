"""Equal instructions made one."""

import dataclasses
from typing import Any

import numpy as np

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.side_effects import has_side_effect
from xla_server.passes.framework.editor import Editor, rewrite

_NEVER = frozenset({Opcode.PARAMETER, Opcode.RNG})
_LARGEST_CONSTANT = 4096
"""Bytes: comparing larger constants costs more than it saves."""

_Same = dict[HloComputation, HloComputation | None]
"""Computation -> the first equal one; None if calls of it may differ."""


@dataclasses.dataclass(frozen=True)
class CommonSubexpressions:
    """Merges instructions with equal opcodes, attributes and operands into the first of them.

    Called computations are equal if their instructions are, whatever their names.
    """

    name: str = "cse"

    def apply(self, module: HloModule) -> bool:
        """Merge within each computation; whether anything was merged."""
        editor = Editor(module)
        same: _Same = {}
        texts: dict[object, HloComputation] = {}
        changed = False
        # Callees come before callers, so what a computation calls is known.
        for computation in module.computations:
            known: dict[object, HloInstruction] = {}

            def first(
                instruction: HloInstruction, known: dict[object, HloInstruction] = known
            ) -> HloInstruction | None:
                key = _key(instruction, same)
                if key is None:
                    return None
                return known.setdefault((key, instruction.operands), instruction)

            changed |= rewrite(computation, first, editor)
            if computation is module.entry:
                continue
            text = _text(computation, same)
            same[computation] = None if text is None else texts.setdefault(text, computation)
        return changed


def _key(instruction: HloInstruction, same: _Same) -> object:
    """Return the key of an instruction without its operands; None if it must not be merged."""
    if instruction.opcode in _NEVER or instruction.control_predecessors:
        return None
    shape = instruction.shape
    if instruction.opcode is Opcode.CONSTANT:
        value: Any = instruction.attributes.literal.value if shape.is_array else None
        if not isinstance(value, np.ndarray) or value.nbytes > _LARGEST_CONSTANT:
            return None
        return (instruction.opcode, shape, value.tobytes())
    if not instruction.called:
        if has_side_effect(instruction):
            return None
        return (instruction.opcode, shape, instruction.attributes)
    called = tuple(same.get(callee) for callee in instruction.called)
    if None in called:
        return None
    return (instruction.opcode, shape, instruction.attributes, called)


def _text(computation: HloComputation, same: _Same) -> object:
    """A computation without its names; None where each call of it may do something else."""
    numbers = {part: number for number, part in enumerate(computation.instructions)}
    lines: list[object] = []
    for part in computation.instructions:
        if part.opcode is Opcode.PARAMETER:
            key: object = (part.opcode, part.shape, part.attributes.number)
        else:
            key = _key(part, same)
        if key is None:
            return None
        lines.append((key, tuple(numbers[operand] for operand in part.operands)))
    return (tuple(lines), numbers[computation.root])

"""Levels: distances of instructions from the parameters and from the root, counted in kernels."""

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction

ALIASES = frozenset(
    {
        Opcode.BITCAST,
        Opcode.CONSTANT,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.PARAMETER,
        Opcode.RESHAPE,
        Opcode.TUPLE,
    }
)
"""Opcodes for which no kernel is launched."""


def levels_from_parameters(computation: HloComputation) -> dict[HloInstruction, int]:
    """Return the number of kernels on the longest path to each instruction, its own included."""
    levels: dict[HloInstruction, int] = {}
    for i in computation.instructions:
        before = max((levels[part] for part in (*i.operands, *i.control_predecessors)), default=0)
        levels[i] = before + (i.opcode not in ALIASES)
    return levels


def levels_from_root(computation: HloComputation) -> dict[HloInstruction, int]:
    """Return minus the number of kernels on the longest path from each instruction to the root."""
    levels = dict.fromkeys(computation.instructions, 0)
    for i in reversed(computation.instructions):
        for part in (*i.operands, *i.control_predecessors):
            levels[part] = min(levels[part], levels[i] - (i.opcode not in ALIASES))
    return levels

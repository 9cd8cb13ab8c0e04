"""Side effects of instructions."""

from collections.abc import Iterator

from xla_contract.types.opcode import Opcode
from xla_server.ir.analysis.participants import COLLECTIVES
from xla_server.ir.module import HloComputation, HloInstruction

SIDE_EFFECTS = frozenset(
    {
        Opcode.INFEED,
        Opcode.OUTFEED,
        Opcode.SEND,
        Opcode.SEND_DONE,
        Opcode.RECV,
        Opcode.RECV_DONE,
        Opcode.RNG,
        Opcode.RNG_GET_AND_UPDATE_STATE,
        *COLLECTIVES,
    }
)
"""Opcodes that are kept even if nothing reads their result: clients or participants may wait for
them, or later random numbers depend on them."""


def is_effectful(instruction: HloInstruction) -> bool:
    """Return whether an instruction itself has a side effect; called computations do not count."""
    if instruction.opcode is Opcode.CUSTOM_CALL:
        return bool(instruction.attributes.has_side_effect)
    return instruction.opcode in SIDE_EFFECTS


def has_side_effect(instruction: HloInstruction) -> bool:
    """Return whether an instruction, or one in its called computations, has a side effect."""
    # Passes ask this of every instruction: a list of what is inside first takes twice the time.
    seen: set[HloComputation] = set()
    waiting = [instruction]
    while waiting:
        part = waiting.pop()
        if is_effectful(part):
            return True
        for called in part.called:
            if called not in seen:
                seen.add(called)
                waiting += called.instructions
    return False


def instructions_inside(instruction: HloInstruction) -> Iterator[HloInstruction]:
    """The instructions of all computations that an instruction calls, directly or not."""
    for called in instruction.called:
        for computation in called.reachable():
            yield from computation.instructions

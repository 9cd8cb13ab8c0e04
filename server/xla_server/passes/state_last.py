"""The order of a loop's body by which its state is overwritten in place."""

import dataclasses
import heapq

from xla_contract.opcode import Opcode
from xla_server.ir.effects import has_side_effect
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.passes.edit import users
from xla_server.passes.loops import Loop, loop_of

Needed = dict[HloInstruction, set[HloInstruction]]
"""For each instruction those that come before it."""

Needing = dict[HloInstruction, list[HloInstruction]]
"""The reverse: for each instruction those that come behind it."""

_SAME_MEMORY = frozenset({Opcode.RESHAPE, Opcode.COPY, Opcode.GET_TUPLE_ELEMENT})


@dataclasses.dataclass(frozen=True)
class StateLast:
    """Moves what makes the next value of a loop's state behind all else that reads the old one.

    Then nobody needs the old value any more when the new one is written, and no copy is made.
    """

    name: str = "state-last"

    def apply(self, module: HloModule) -> bool:
        """Reorder the bodies of all loops; whether any was."""
        loops = [loop for i in module.instructions() if (loop := loop_of(i)) is not None]
        changed = [_reorder(loop) for loop in loops]
        return any(changed)


def _reorder(loop: Loop) -> bool:
    body = loop.body
    if any(has_side_effect(part) for part in body.instructions):
        return False
    before: Needed = {
        part: {*part.operands, *part.control_predecessors} for part in body.instructions
    }
    after: Needing = {part: [] for part in before}
    for part, earlier in before.items():
        for needed in earlier:
            after[needed].append(part)
    readers = users(body)
    for number, new in enumerate(body.root.operands):
        maker = _maker(new)
        if maker.opcode is Opcode.PARAMETER:
            continue
        later = _reached(maker, after)
        elements = [part for part in loop.reads if part.attributes.index == number]
        others = _readers(elements, readers) - later - {body.root}
        for reader in others - before[maker]:
            before[maker].add(reader)
            after[reader].append(maker)
    order = _sorted(body, before, after)
    changed = order != body.instructions
    body.instructions = order
    return changed


def _maker(part: HloInstruction) -> HloInstruction:
    """The instruction that writes the memory of a value."""
    while part.opcode in _SAME_MEMORY:
        part = part.operands[0]
    return part


def _readers(
    parts: list[HloInstruction], readers: dict[HloInstruction, list[HloInstruction]]
) -> set[HloInstruction]:
    """What reads the memory of these values."""
    found: set[HloInstruction] = set()
    waiting = list(parts)
    while waiting:
        for reader in readers[waiting.pop()]:
            if reader not in found:
                found.add(reader)
                if reader.opcode in _SAME_MEMORY:
                    waiting.append(reader)
    return found


def _reached(maker: HloInstruction, after: Needing) -> set[HloInstruction]:
    """An instruction and all that must come behind it."""
    found = {maker}
    waiting = [maker]
    while waiting:
        new = [part for part in after[waiting.pop()] if part not in found]
        found.update(new)
        waiting += new
    return found


def _sorted(body: HloComputation, before: Needed, after: Needing) -> list[HloInstruction]:
    """The instructions as they stand, but each behind those it needs."""
    places = {part: place for place, part in enumerate(body.instructions)}
    missing = {part: len(earlier) for part, earlier in before.items()}
    ready = [places[part] for part, count in missing.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        part = body.instructions[heapq.heappop(ready)]
        order.append(part)
        for next_ in after[part]:
            missing[next_] -= 1
            if missing[next_] == 0:
                heapq.heappush(ready, places[next_])
    return order

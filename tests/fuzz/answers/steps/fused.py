"""The same module with few results, which is fused as programs are, against that with all."""

import random
from collections.abc import Sequence
from typing import Any

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws.bounds import BOUNDS
from tests.fuzz.answers.checking import Reference
from tests.fuzz.answers.judging.judge import NORMWISE, SUMS
from tests.fuzz.answers.shrinking.pruning import ancestors, pruned
from tests.fuzz.answers.sides import Side, SideError
from tests.fuzz.answers.steps.graph import Case, entry_of
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ir.text.printer import print_module

MAX_RESULTS = 2


def difference(case: Case, results: Sequence[Any], reference: Reference, side: Side) -> str:
    """Return how results change where the others are left out; nothing if they stay.

    Only values that no instruction rounds on their way are compared: for the others, a sum may
    be done in another order in another loop.
    """
    root = reference.module.entry.root
    settled = _settled(reference.module.entry)
    places = [number for number, part in enumerate(root.operands) if part in settled]
    if not places:
        return ""
    chance = random.Random(case.origin)
    chosen = sorted(chance.sample(places, min(len(places), MAX_RESULTS)))
    entry = entry_of(case.proto)
    shown = [entry.instructions[-1].operand_ids[number] for number in chosen]
    kept = {number for one in shown for number in ancestors(entry, one)}
    fused = pruned(case, kept, shown)
    try:
        found = side.run(fused.proto, fused.arguments)
    except SideError as error:
        return f"{case.origin}: {side.name} gives no answer with fewer results: {error}"
    for place, value in zip(chosen, found, strict=True):
        try:
            assert_equal_bits(value, results[place])
        except AssertionError as error:
            return (
                f"{case.origin}: {side.name} gives another value of %{root.operands[place].name} "
                f"where others are left out: {error}\n"
                f"{print_module(Reference(fused.proto).module)}\narguments {fused.arguments}"
            )
    return ""


def _settled(entry: HloComputation) -> set[HloInstruction]:
    found: set[HloInstruction] = set()
    for instruction in entry.instructions:
        if not _rounds(instruction) and all(part in found for part in instruction.operands):
            found.add(instruction)
    return found


def _rounds(instruction: HloInstruction) -> bool:
    """Return True if two correct answers of an operation, or of one it calls, may differ."""
    kinds = [leaf.element_type for leaf in instruction.shape.leaves() if leaf.is_array]
    opcode = instruction.opcode
    if any(kind.is_floating or kind.is_complex for kind in kinds):
        if opcode in SUMS or opcode in NORMWISE or opcode is Opcode.CUSTOM_CALL:
            return True
        if opcode in BOUNDS and any(BOUNDS[opcode].of(kind) for kind in kinds):
            return True
    return any(_rounds(part) for called in instruction.called for part in called.instructions)

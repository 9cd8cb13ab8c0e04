"""Segments of a computation that can run as one program once operand sizes are known."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from xla_contract.errors import XlaError
from xla_server.evaluator.plan import PlannedInstruction
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.ops.evaluation import Value
from xla_server.passes.dynamic_sizes.known_sizes import ArgumentIndex, KnownSizes
from xla_server.passes.dynamic_sizes.size_specialisation import SizeSpecialiser, has_effect
from xla_server.passes.dynamic_sizes.sized_operations import UnspecialisedError
from xla_server.passes.dynamic_sizes.sized_values import (
    Known,
    PaddedExtents,
    arrays_of,
    extents_of,
    padded_arrays,
)


@dataclasses.dataclass(frozen=True, slots=True)
class StaticSegment:
    """Steps written as a program of static shape.

    `module` is None if no step could be written. Its parameters are the padded arrays of the values
    in the slots `inputs`; its result has those of `outputs`, slots with the extents of their new
    values. It is valid for values of the same sizes, with the same numbers at the indices `guards`.
    `remaining` are the other steps, in order.
    """

    module: HloModule | None
    inputs: tuple[int, ...]
    outputs: tuple[tuple[int, PaddedExtents], ...]
    guards: frozenset[ArgumentIndex]
    remaining: tuple[PlannedInstruction, ...]


def first_segment(
    module: HloModule,
    steps: Sequence[PlannedInstruction],
    values: Mapping[int, Value],
    constants: Mapping[int, HloInstruction],
    wanted: Collection[int],
) -> StaticSegment:
    """Return the longest segment of the steps that can be one program, for the available values.

    `values` are the inputs of the steps that none of them computes, `constants` the slots of
    instructions that may be written into the program; the values in `wanted` are needed after the
    last step. Steps without effects may be moved before others.
    """
    numbers = KnownSizes()
    specialiser = SizeSpecialiser(module, numbers)
    known: dict[int, Known] = {}
    inputs: list[int] = []

    def operand(slot: int, instruction: HloInstruction) -> Known:
        if slot in known:
            return known[slot]
        if slot in constants:
            found = specialiser.value(constants[slot], ())
        else:
            value = values[slot]
            found = specialiser.parameter(instruction.shape, extents_of(value))
            pairs = zip(padded_arrays(found), arrays_of(value), strict=True)
            for number, (made, array) in enumerate(pairs):
                numbers.bind(made, (slot, number), array)
            inputs.append(slot)
        known[slot] = found
        return found

    remaining: list[PlannedInstruction] = []
    taken: list[PlannedInstruction] = []
    for step in steps:
        i = step.instruction
        is_there = all(
            slot in known or slot in constants or slot in values for slot in step.operands
        )
        if not is_there or (remaining and has_effect(i)):
            remaining.append(step)
            continue
        operands = [
            operand(slot, part) for slot, part in zip(step.operands, i.operands, strict=True)
        ]
        try:
            known[step.result] = specialiser.value(i, operands)
        except (UnspecialisedError, XlaError):
            # An error at these sizes is raised when the run reaches the step.
            remaining.append(step)
        else:
            taken.append(step)
    if not taken:
        return StaticSegment(None, (), (), frozenset(numbers.guards), tuple(remaining))
    read = {slot for step in remaining for slot in step.operands} | set(wanted)
    results = [step.result for step in taken if step.result in read]
    written = specialiser.module([part for slot in results for part in padded_arrays(known[slot])])
    return StaticSegment(
        written,
        tuple(inputs),
        tuple((slot, extents_of(known[slot])) for slot in results),
        frozenset(numbers.guards),
        tuple(remaining),
    )

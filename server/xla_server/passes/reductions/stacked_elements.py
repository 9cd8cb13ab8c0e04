"""Elementwise operations between a concatenation and its reductions, done on the operands."""

from collections.abc import Sequence

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.passes.framework.editor import Editor, users
from xla_server.passes.framework.queries import combiner
from xla_server.passes.framework.rewrite_pass import Rule, TargetRewritePass
from xla_server.passes.simplify.rules.slices import part_of

MAX_OPERATIONS = 64
"""Largest number of operations that replace those on one concatenation: one per operand each."""


class StackedElements(TargetRewritePass):
    """Makes elementwise operations on a concatenation a concatenation of operations on its parts.

    Its readers, through such operations, must be reductions along its dimension and slices of one
    part: these need only the parts, so that neither the concatenation nor its elementwise results
    need exist. `logsumexp` and variances of stacked arrays have this form. Other operands must be
    constant along the dimension, or concatenated with the same sizes. Each operation becomes one
    for each part, so their number is limited.
    """

    name = "stacked-elements"
    opcodes = ELEMENTWISE

    def _rule_in(self, computation: HloComputation, editor: Editor) -> Rule | None:
        wholes = [i for i in computation.instructions if i.opcode is Opcode.CONCATENATE]
        readers = users(computation) if wholes else {}
        chosen = dict[HloInstruction, HloInstruction]()
        for whole in wholes:
            inside = _elementwise_between(whole, readers)
            # The root is read from outside, so it is not between the whole and readers of parts.
            if inside is not None and computation.root not in (whole, *inside):
                chosen |= dict.fromkeys(inside, whole)
        if not chosen:
            return None
        return lambda i: _on_parts(i, chosen[i], editor) if i in chosen else None


def _elementwise_between(
    whole: HloInstruction, readers: dict[HloInstruction, list[HloInstruction]]
) -> dict[HloInstruction, None] | None:
    """The operations between a concatenation and readers of its parts; None for other readers."""
    inside = dict[HloInstruction, None]()
    waiting = [whole]
    while waiting:
        source = waiting.pop()
        for reader in readers[source]:
            if reader.opcode in ELEMENTWISE and reader not in inside:
                inside[reader] = None
                waiting.append(reader)
            elif reader.opcode not in ELEMENTWISE and not needs_parts(reader, source, whole):
                return None
            if len(inside) * len(whole.operands) > MAX_OPERATIONS:
                return None
    operands = (operand for i in inside for operand in i.operands)
    return inside if all(o in inside or _is_divisible(o, whole) for o in operands) else None


def needs_parts(reader: HloInstruction, source: HloInstruction, whole: HloInstruction) -> bool:
    """True for a reduction along the concatenation, and for a slice of one of its parts."""
    d = whole.attributes.dimension
    if reader.opcode is Opcode.REDUCE:
        is_known = combiner(reader.called[0]) is not None
        return is_known and reader.operands[0] is source and d in reader.attributes.dimensions
    return reader.opcode is Opcode.SLICE and part_of(reader, whole) is not None


def _sizes(whole: HloInstruction) -> list[int]:
    """The sizes of the parts of a concatenation along its dimension."""
    return [part.shape.dimensions[whole.attributes.dimension] for part in whole.operands]


def _is_divisible(operand: HloInstruction, whole: HloInstruction) -> bool:
    """True for an operand with parts of the sizes of `whole`'s, or constant along its dimension."""
    d = whole.attributes.dimension
    if operand.opcode is Opcode.CONCATENATE:
        return operand.attributes.dimension == d and _sizes(operand) == _sizes(whole)
    is_alike = operand.opcode is Opcode.BROADCAST and d not in operand.attributes.dimensions
    return is_alike or not operand.shape.rank


def _on_parts(i: HloInstruction, whole: HloInstruction, editor: Editor) -> HloInstruction:
    """An operation on the parts of its operands, concatenated as `whole` is."""
    results = [
        editor.add(
            i.opcode,
            [_part(operand, number, part.shape.dimensions, editor) for operand in i.operands],
            i.attributes,
        )
        for number, part in enumerate(whole.operands)
    ]
    return editor.add(Opcode.CONCATENATE, results, whole.attributes)


def _part(
    operand: HloInstruction, number: int, sizes: Sequence[int], editor: Editor
) -> HloInstruction:
    """The part of an operand that belongs to part `number` of the concatenation."""
    if operand.opcode is Opcode.CONCATENATE:
        return operand.operands[number]
    if operand.opcode is Opcode.BROADCAST and operand.shape.rank:
        return editor.broadcast(operand.operands[0], operand.attributes.dimensions, sizes)
    return operand

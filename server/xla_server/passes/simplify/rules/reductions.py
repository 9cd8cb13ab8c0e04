"""Reductions of repeated elements: products with their number, or the elements themselves."""

from collections.abc import Sequence

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.queries import combiner, count, splat
from xla_server.passes.simplify.map_inliner import applied

_IDEMPOTENT = frozenset({Opcode.AND, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.OR})
"""Operations that change nothing when a value is combined again."""

_LARGEST_EXACT = {ElementType.F32: 1 << 24, ElementType.F64: 1 << 53}
"""Largest number up to which the type has every integer."""


def reduce_repeated(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """reduce(broadcast(x)) along dimensions in which x is repeated n times.

    It is n * x where elements are added, else x. A product of floats is rounded once, so no sum is
    more exact; where x would have to be summed as well, or the initial value added, it is not.
    """
    if len(i.operands) != 2:
        return None
    operand, initial = i.operands
    wide, opcode = i.shape.element_type, combiner(i.called[0])
    source = _before_conversions(operand)
    if source.opcode is not Opcode.BROADCAST or operand.shape.element_type is not wide:
        return None
    types = {initial.shape.element_type, i.called[0].root.shape.element_type}
    if types != {wide} or wide.is_complex:
        return None
    mapped, sizes = source.attributes.dimensions, source.shape.dimensions
    repeated = [d for d in i.attributes.dimensions if d not in mapped]
    rest = [d for d in i.attributes.dimensions if d in mapped]
    times = count([sizes[d] for d in repeated])
    is_sum = opcode is Opcode.ADD and wide is not ElementType.PRED
    if not repeated or not times or not (is_sum or opcode in _IDEMPOTENT):
        return None
    if is_sum and wide.is_floating and not _is_exact(times, rest, initial):
        return None
    start = initial
    element = _converted_as(operand, source.operands[0], editor)
    if rest:
        start = editor.constant(0, wide) if is_sum else initial
        within = [mapped.index(d) for d in rest]
        element = editor.reduce(element, start, within, i.called[0])
    if is_sum:
        factor = editor.full(_as_number(times, wide), wide, element.shape.dimensions)
        element = editor.add(Opcode.MULTIPLY, (element, factor))
    kept = [d for d in range(len(sizes)) if d not in i.attributes.dimensions]
    places = [kept.index(d) for d in mapped if d not in rest]
    result = editor.broadcast(element, places, i.shape.dimensions)
    if rest and not is_sum:
        return result
    return applied(i.called[0], (initial, result), i.shape.dimensions, editor)


def _is_exact(times: int, rest: Sequence[int], initial: HloInstruction) -> bool:
    limit = _LARGEST_EXACT.get(initial.shape.element_type, 0)
    return times <= limit and not rest and splat(initial) == 0


def _before_conversions(i: HloInstruction) -> HloInstruction:
    while i.opcode is Opcode.CONVERT:
        (i,) = i.operands
    return i


def _converted_as(i: HloInstruction, source: HloInstruction, editor: Editor) -> HloInstruction:
    """Return `source` with the conversions that lead to `i`."""
    kinds = []
    while i.opcode is Opcode.CONVERT:
        kinds.append(i.shape.element_type)
        (i,) = i.operands
    for kind in reversed(kinds):
        source = editor.convert(source, kind)
    return source


def _as_number(times: int, kind: ElementType) -> "np.generic":
    """Return a count as a number of the type, modulo its range."""
    if kind.is_floating:
        return np.float64(times)
    wrapped = times % (1 << kind.bit_width)
    if kind.is_signed_integer and wrapped >> (kind.bit_width - 1):
        wrapped -= 1 << kind.bit_width
    return np.uint64(wrapped) if kind.is_unsigned_integer else np.int64(wrapped)

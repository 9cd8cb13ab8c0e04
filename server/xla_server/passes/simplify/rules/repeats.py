"""Operations on repeated elements, done once on the source and then repeated."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.queries import IDEMPOTENT, combiner, splat
from xla_server.passes.simplify.lifting import applied

_LARGEST_EXACT = {ElementType.F32: 1 << 24, ElementType.F64: 1 << 53}
"""Largest number up to which the type has every integer."""


@dataclasses.dataclass(frozen=True)
class _Form:
    """A repetition of elements: broadcast(x) with these attributes, then perhaps a reshape."""

    before: tuple[int, ...]
    mapped: tuple[int, ...]
    sizes: tuple[int, ...]

    def kept(
        self, result: HloInstruction, own: Sequence[int], reduced: Sequence[int], editor: Editor
    ) -> HloInstruction:
        """Broadcast a result, with its `own` dimensions, along all kept dimensions."""
        kept = [d for d in range(len(self.sizes)) if d not in reduced]
        positions = [kept.index(d) for d in own if d not in reduced]
        return editor.broadcast(result, positions, [self.sizes[d] for d in kept])


def _repeated(i: HloInstruction) -> tuple[HloInstruction, _Form] | None:
    """Return the smaller array that `i` repeats, and the form; None if it repeats nothing."""
    whole = i.operands[0] if i.opcode is Opcode.RESHAPE else i
    if whole.opcode is not Opcode.BROADCAST:
        return None
    (source,) = whole.operands
    if source.shape.element_count >= whole.shape.element_count:
        return None
    sizes = whole.shape.dimensions
    return source, _Form(source.shape.dimensions, whole.attributes.dimensions, sizes)


def hoist_repeats(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """An operation on elements that are repeated alike is done once, and its result repeated."""
    if i.opcode not in ELEMENTWISE or not i.shape.rank:
        return None
    sources, forms = list[HloInstruction](), dict[_Form, None]()
    for operand in i.operands:
        found = _repeated(operand) if operand.shape.rank else None
        if operand.shape.rank and found is None:
            return None
        source, form = found or (operand, None)
        sources.append(source)
        if form is not None and form.before:
            forms[form] = None
    if len(forms) > 1:
        return None
    alike = next(iter(forms), _Form((), (), i.shape.dimensions))
    operands = [
        # An operand without dimensions stays so: one condition selects all elements.
        source
        if operand is source
        else editor.broadcast(source, range(source.shape.rank), alike.before)
        for operand, source in zip(i.operands, sources, strict=True)
    ]
    element = editor.add(i.opcode, operands, i.attributes)
    return editor.reshape(alike.kept(element, alike.mapped, (), editor), i.shape.dimensions)


def reduce_repeated(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    """A reduction of repeated elements: each of them is reduced once.

    Equal results are computed once and repeated. Along reduced dimensions in which x is repeated n
    times, a sum adds n * x; other operations count x once. A product of floats is rounded once, so
    no sum of n elements is more exact. The initial value of such sums must be 0.
    """
    if len(i.operands) != 2:
        return None
    found = _repeated(i.operands[0])
    groups = None if found is None else _groups(found[1].sizes, i.operands[0].shape.dimensions)
    if found is None or groups is None:
        return None
    source, form = found
    reduced = [d for n in i.attributes.dimensions for d in groups[n]]
    kept = [d for d in range(len(form.sizes)) if d not in reduced]
    if any(d not in form.mapped for d in kept):
        return _equal_results(i, source, form, reduced, editor)
    return _equal_elements(i, source, form, reduced, editor)


def _groups(before: Sequence[int], after: Sequence[int]) -> list[range] | None:
    """Group the dimensions that a reshape joins to each of its own; None if it splits one."""
    groups = list[range]()
    begin = 0
    for size in after:
        end = begin
        while end < len(before) and math.prod(before[begin:end]) < size:
            end += 1
        if math.prod(before[begin:end]) != size:
            return None
        groups.append(range(begin, end))
        begin = end
    return groups if math.prod(before[begin:]) == 1 else None


def _equal_results(
    i: HloInstruction, source: HloInstruction, form: _Form, reduced: Sequence[int], editor: Editor
) -> HloInstruction:
    """The results for distinct elements, repeated along kept dimensions."""
    inside = [d for d in range(len(form.sizes)) if d in form.mapped or d in reduced]
    sizes = [form.sizes[d] for d in inside]
    operand = editor.broadcast(source, [inside.index(d) for d in form.mapped], sizes)
    along = [inside.index(d) for d in reduced]
    result = editor.reduce(operand, i.operands[1], along, i.called[0])
    return editor.reshape(form.kept(result, inside, reduced, editor), i.shape.dimensions)


def _equal_elements(
    i: HloInstruction, source: HloInstruction, form: _Form, reduced: Sequence[int], editor: Editor
) -> HloInstruction | None:
    """The elements, multiplied by the number of equal ones if they are added."""
    operand, initial = i.operands
    wide, opcode = i.shape.element_type, combiner(i.called[0])
    kinds = (operand, initial, i.called[0].root)
    if wide.is_complex or any(part.shape.element_type is not wide for part in kinds):
        return None
    times = math.prod([form.sizes[d] for d in reduced if d not in form.mapped])
    rest = [n for n, d in enumerate(form.mapped) if d in reduced]
    is_sum = opcode is Opcode.ADD and wide is not ElementType.PRED
    if times < 2 or not (is_sum or opcode in IDEMPOTENT):
        return None
    is_exact = times <= _LARGEST_EXACT.get(wide, 0) and splat(initial) == 0
    if is_sum and wide.is_floating and not is_exact:
        return None
    element = source
    if is_sum:
        factor = editor.full(_as_number(times, wide), wide, source.shape.dimensions)
        element = editor.add(Opcode.MULTIPLY, (source, factor))
    if rest:
        element = editor.reduce(element, initial, rest, i.called[0])
    result = form.kept(element, form.mapped, reduced, editor)
    result = editor.reshape(result, i.shape.dimensions)
    if rest:
        return result
    return applied(i.called[0], (initial, result), i.shape.dimensions, editor)


def _as_number(times: int, kind: ElementType) -> "np.generic":
    """Return a count as a number of the type, modulo its range."""
    if kind.is_floating:
        return np.float64(times)
    wrapped = times % (1 << kind.bit_width)
    if kind.is_signed_integer and wrapped >> (kind.bit_width - 1):
        wrapped -= 1 << kind.bit_width
    return np.uint64(wrapped) if kind.is_unsigned_integer else np.int64(wrapped)

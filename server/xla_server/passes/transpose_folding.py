"""Transposes of operands folded into the dimension numbers of dots and convolutions.

Both operations name the role of each operand dimension, so an operand can be read in the order in
which it is stored. XLA's TransposeFolding does the same for dots of matrices.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from xla_contract.dimension_numbers import DotDimensionNumbers
from xla_contract.opcode import Opcode
from xla_contract.ops.dot import free_dimensions
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.elementwise_table import ELEMENTWISE
from xla_server.passes.dot_types import has_packing_kernel, is_in_order
from xla_server.passes.edit import Editor, users
from xla_server.passes.features_last import input_numbers, is_worth_it, kernel_numbers
from xla_server.passes.rewrite_pass import Rule, TargetRewritePass
from xla_server.target.target import Target

_MAX_CHAIN = 8
"""Elementwise operations and reshapes between a transpose and its product, at most."""

Readers = Mapping[HloInstruction, Sequence[HloInstruction]]


class TransposeFolding(TargetRewritePass):
    """Lets dots and convolutions read what their operands are transposes of.

    Conversions, reshapes and other cheap operations between the transpose and the product are
    done before the transpose instead. A transpose that something else reads as well stays for that
    reader. The product may have dimensions of size 1 in other positions; a reshape restores them.
    """

    name = "transpose-folding"
    opcodes = (Opcode.DOT, Opcode.CONVOLUTION)

    def _rule_in(self, computation: HloComputation, editor: Editor) -> Rule:
        readers = users(computation)

        def folded(i: HloInstruction) -> HloInstruction | None:
            if i.control_predecessors:
                return None
            fold = _dot if i.opcode is Opcode.DOT else _convolution
            return fold(i, readers, editor, self.target)

        return folded


@dataclasses.dataclass(frozen=True, slots=True)
class _Source:
    """An operand before its transpose: dimension d of the operand is `order[d]` of `value`."""

    value: HloInstruction
    order: tuple[int, ...]

    def of(self, dimensions: Sequence[int]) -> tuple[int, ...]:
        """Return the dimensions of `value` that these dimensions of the operand are."""
        return tuple(self.order[d] for d in dimensions)


def _dot(
    i: HloInstruction, readers: Readers, editor: Editor, target: Target
) -> HloInstruction | None:
    """Return the dot of the operands before their transposes, None if it can read neither."""
    numbers = i.attributes.dimension_numbers
    roles = [
        (numbers.lhs_batch_dimensions, numbers.lhs_contracting_dimensions),
        (numbers.rhs_batch_dimensions, numbers.rhs_contracting_dimensions),
    ]
    operands = list(i.operands)
    for number, (batch, contracting) in enumerate(roles):
        # A loop nest takes the left matrix by rows.
        if number == 0 and not has_packing_kernel(i, target.capability):
            continue
        operand = operands[number]
        source = _before_transpose(operand, i, readers, editor)
        if source is None:
            continue
        free = free_dimensions(operand.shape.rank, batch, contracting)
        # The result has the free dimensions in the order in which the operand has them.
        if not is_in_order(source.value, source.of(free)):
            continue
        before = source.of(batch), source.of(free), tuple(sorted(source.of(contracting)))
        # What is no matrix before the transpose is copied in any case, to rows of contracted ones.
        if not _is_matrix(source.value, *before) and is_in_order(
            operand, (*batch, *free, *sorted(contracting))
        ):
            continue
        operands[number] = source.value
        roles[number] = source.of(batch), source.of(contracting)
    if operands == list(i.operands):
        return None
    (lhs_batch, lhs_contracting), (rhs_batch, rhs_contracting) = roles
    attributes = dataclasses.replace(
        i.attributes,
        dimension_numbers=DotDimensionNumbers(
            lhs_contracting, rhs_contracting, lhs_batch, rhs_batch
        ),
    )
    return editor.reshape(editor.add(Opcode.DOT, operands, attributes), i.shape.dimensions)


def _is_matrix(
    i: HloInstruction, batch: Sequence[int], free: Sequence[int], contracting: Sequence[int]
) -> bool:
    """Return whether an operand is stored as a batch of matrices, transposed or not."""
    return is_in_order(i, (*batch, *free, *contracting)) or is_in_order(
        i, (*batch, *contracting, *free)
    )


def _convolution(
    i: HloInstruction, readers: Readers, editor: Editor, target: Target
) -> HloInstruction | None:
    """Return the convolution of the operands before their transposes.

    The result is None if there are none, or if `FeaturesLast` would transpose them again.
    """
    operands, numbers = list(i.operands), i.attributes.dimension_numbers
    for number, renumbered in enumerate((input_numbers, kernel_numbers)):
        source = _before_transpose(operands[number], i, readers, editor)
        if source is not None:
            operands[number] = source.value
            numbers = renumbered(numbers, source.order)
    if operands == list(i.operands):
        return None
    attributes = dataclasses.replace(i.attributes, dimension_numbers=numbers)
    folded = dataclasses.replace(i, operands=tuple(operands), attributes=attributes)
    # It would be brought into the order that it has now.
    if is_worth_it(folded, target):
        return None
    return editor.add(Opcode.CONVOLUTION, operands, attributes, shape=i.shape)


def _before_transpose(
    operand: HloInstruction,
    reader: HloInstruction,
    readers: Readers,
    editor: Editor,
    steps: int = _MAX_CHAIN,
) -> _Source | None:
    """Return the source of an operand that is a transpose, or is computed from one."""
    if operand.opcode is Opcode.TRANSPOSE:
        return _Source(operand.operands[0], operand.attributes.permutation)
    if not steps or operand.control_predecessors:
        return None
    if operand.opcode is Opcode.RESHAPE:
        inner = _before_transpose(operand.operands[0], operand, readers, editor, steps - 1)
        return None if inner is None else _reshaped(operand, inner, editor)
    if operand.opcode not in ELEMENTWISE:
        return None
    # A conversion costs less than a transpose even if the other reader repeats it.
    if operand.opcode is not Opcode.CONVERT and readers.get(operand) != [reader]:
        return None
    arrays = [part for part in operand.operands if not _is_uniform(part)]
    if len(arrays) != 1:
        return None
    inner = _before_transpose(arrays[0], operand, readers, editor, steps - 1)
    return None if inner is None else _computed(operand, inner, editor)


def _is_uniform(i: HloInstruction) -> bool:
    """Return whether all elements of an operand are one scalar."""
    return i.opcode is Opcode.BROADCAST and not i.operands[0].shape.rank


def _computed(i: HloInstruction, inner: _Source, editor: Editor) -> _Source:
    """Return the elementwise instruction on what its operand is a transpose of."""
    dimensions = inner.value.shape.dimensions
    operands = [
        editor.broadcast(part.operands[0], (), dimensions) if _is_uniform(part) else inner.value
        for part in i.operands
    ]
    return _Source(editor.add(i.opcode, operands, i.attributes), inner.order)


def _reshaped(i: HloInstruction, inner: _Source, editor: Editor) -> _Source | None:
    """Return a reshape of what is transposed before it, None if it joins what was not adjacent."""
    before, after = i.operands[0].shape.dimensions, i.shape.dimensions
    groups = _common_factors(before, after)
    if groups is None:
        return None
    sizes = inner.value.shape.dimensions
    position = {d: n for n, d in enumerate(d for d in range(len(sizes)) if sizes[d] != 1)}
    starts = list[tuple[int, list[int]]]()
    for taken, given in groups:
        positions = [position[inner.order[d]] for d in taken]
        if positions != list(range(positions[0], positions[0] + len(positions))):
            return None
        starts.append((positions[0], given))
    order = [d for d, size in enumerate(after) if size == 1]
    order += [d for _, given in sorted(starts) for d in given]
    value = editor.reshape(inner.value, [after[d] for d in order])
    return _Source(value, tuple(order.index(d) for d in range(len(after))))


def _common_factors(
    before: Sequence[int], after: Sequence[int]
) -> list[tuple[list[int], list[int]]] | None:
    """Return the smallest groups of dimensions with equal element counts, without size 1.

    None where there are no elements.
    """
    if 0 in before:
        return None
    sides = [[(d, size) for d, size in enumerate(part) if size != 1] for part in (before, after)]
    groups = list[tuple[list[int], list[int]]]()
    left, right = (iter(side) for side in sides)
    for d, count in left:
        taken, given, other = [d], list[int](), 1
        while count != other:
            if count > other:
                d, size = next(right)
                given.append(d)
                other *= size
            else:
                d, size = next(left)
                taken.append(d)
                count *= size
        groups.append((taken, given))
    return groups

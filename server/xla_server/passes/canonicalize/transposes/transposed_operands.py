"""Search for the transpose that an operand is computed from."""

import dataclasses
from collections.abc import Mapping, Sequence

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.passes.framework.editor import Editor, inverse_permutation

_MAX_CHAIN = 8
"""Largest number of elementwise operations and reshapes between a transpose and its reader."""

Readers = Mapping[HloInstruction, Sequence[HloInstruction]]


@dataclasses.dataclass(frozen=True, slots=True)
class TransposedOperand:
    """An operand before its transpose: dimension d of the operand is `order[d]` of `value`."""

    value: HloInstruction
    order: tuple[int, ...]
    transpose: HloInstruction

    def of(self, dimensions: Sequence[int]) -> tuple[int, ...]:
        """Map dimensions of the operand to those of `value`."""
        return tuple(self.order[d] for d in dimensions)


def before_transpose(
    operand: HloInstruction,
    reader: HloInstruction,
    readers: Readers,
    editor: Editor,
    steps: int = _MAX_CHAIN,
) -> TransposedOperand | None:
    """Return the source of an operand that is a transpose, or is computed from one."""
    if operand.opcode is Opcode.TRANSPOSE:
        return TransposedOperand(operand.operands[0], operand.attributes.permutation, operand)
    if not steps or operand.control_predecessors:
        return None
    if operand.opcode is Opcode.RESHAPE:
        inner = before_transpose(operand.operands[0], operand, readers, editor, steps - 1)
        return None if inner is None else _reshaped(operand, inner, editor)
    if operand.opcode not in ELEMENTWISE:
        return None
    # A conversion costs less than a transpose, even if it is repeated for another reader.
    if operand.opcode is not Opcode.CONVERT and readers.get(operand) != [reader]:
        return None
    arrays = {part for part in operand.operands if not _is_uniform(part)}
    if len(arrays) != 1:
        return None
    inner = before_transpose(arrays.pop(), operand, readers, editor, steps - 1)
    return None if inner is None else _computed(operand, inner, editor)


def are_reductions(i: HloInstruction, readers: Readers) -> bool:
    """Return whether only reductions read an instruction, maybe through elementwise chains."""
    for reader in readers.get(i, ()):
        for _ in range(_MAX_CHAIN):
            following = readers.get(reader, ())
            if reader.opcode not in ELEMENTWISE or len(following) != 1:
                break
            (reader,) = following
        if reader.opcode is not Opcode.REDUCE:
            return False
    return True


def _is_uniform(i: HloInstruction) -> bool:
    """Return whether all elements of an operand are one scalar."""
    return i.opcode is Opcode.BROADCAST and not i.operands[0].shape.rank


def _computed(i: HloInstruction, inner: TransposedOperand, editor: Editor) -> TransposedOperand:
    """Return the elementwise instruction, moved before its operand's transpose."""
    dimensions = inner.value.shape.dimensions
    operands = [
        editor.broadcast(part.operands[0], (), dimensions) if _is_uniform(part) else inner.value
        for part in i.operands
    ]
    value = editor.add(i.opcode, operands, i.attributes)
    return dataclasses.replace(inner, value=value)


def _reshaped(
    i: HloInstruction, inner: TransposedOperand, editor: Editor
) -> TransposedOperand | None:
    """Return a reshape, moved before a transpose; None if it joins separate dimensions."""
    before, after = i.operands[0].shape.dimensions, i.shape.dimensions
    groups = _common_factors(before, after)
    if groups is None:
        return None
    sizes = inner.value.shape.dimensions
    position = {d: n for n, d in enumerate(d for d in range(len(sizes)) if sizes[d] != 1)}
    starts = list[tuple[int, list[int]]]()
    for old, new in groups:
        positions = [position[inner.order[d]] for d in old]
        if positions != list(range(positions[0], positions[0] + len(positions))):
            return None
        starts.append((positions[0], new))
    order = [d for d, size in enumerate(after) if size == 1]
    order += [d for _, new in sorted(starts) for d in new]
    value = editor.reshape(inner.value, [after[d] for d in order])
    return dataclasses.replace(inner, value=value, order=inverse_permutation(order))


def _common_factors(
    before: Sequence[int], after: Sequence[int]
) -> list[tuple[list[int], list[int]]] | None:
    """Return the smallest groups of dimensions with equal counts, without size 1; None if empty."""
    if 0 in before:
        return None
    sides = [[(d, size) for d, size in enumerate(part) if size != 1] for part in (before, after)]
    groups = list[tuple[list[int], list[int]]]()
    left, right = (iter(side) for side in sides)
    for d, count in left:
        old, new, other = [d], list[int](), 1
        while count != other:
            if count > other:
                d, size = next(right)
                new.append(d)
                other *= size
            else:
                d, size = next(left)
                old.append(d)
                count *= size
        groups.append((old, new))
    return groups

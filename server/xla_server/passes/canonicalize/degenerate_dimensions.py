"""Removal of dimensions of size 1 from operations, whose results are reshaped back."""

from collections.abc import Mapping, Sequence

from xla_contract.ops.shaping.reverse import ReverseAttributes
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.passes.framework.editor import Editor
from xla_server.passes.framework.rewrite_pass import EditorRule, RewritePass
from xla_server.passes.simplify.lifting import applied


def long(dimensions: tuple[int, ...]) -> list[int]:
    """Return the numbers of the dimensions whose size is not 1."""
    return [number for number, size in enumerate(dimensions) if size != 1]


def _sizes(dimensions: tuple[int, ...]) -> list[int]:
    return [size for size in dimensions if size != 1]


def _flat(operand: HloInstruction, editor: Editor) -> HloInstruction:
    return editor.reshape(operand, _sizes(operand.shape.dimensions))


def _same(i: HloInstruction, editor: Editor) -> HloInstruction:
    operands = [_flat(operand, editor) for operand in i.operands]
    return editor.add(i.opcode, operands, i.attributes, i.called)


def _broadcast(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    if not i.operands[0].shape.rank:
        # A broadcast scalar costs the same in any shape, and less without a reshape behind it.
        return None
    kept = long(i.shape.dimensions)
    (operand,) = i.operands
    mapped = [
        kept.index(target)
        for source, target in enumerate(i.attributes.dimensions)
        if operand.shape.dimensions[source] != 1
    ]
    return editor.broadcast(_flat(operand, editor), mapped, _sizes(i.shape.dimensions))


def _iota(i: HloInstruction, editor: Editor) -> HloInstruction:
    kept, sizes = long(i.shape.dimensions), _sizes(i.shape.dimensions)
    along = i.attributes.iota_dimension
    if along not in kept:
        return editor.full(0, i.shape.element_type, sizes)
    return editor.iota(i.shape.element_type, sizes, kept.index(along))


def _kept(i: HloInstruction, dimensions: Sequence[int]) -> list[int]:
    """Return the new numbers of those `dimensions` of the first operand that remain."""
    kept = long(i.operands[0].shape.dimensions)
    return [kept.index(d) for d in dimensions if d in kept]


def _reduce(i: HloInstruction, editor: Editor) -> HloInstruction:
    flat, initial = _flat(i.operands[0], editor), i.operands[1]
    dimensions = _kept(i, i.attributes.dimensions)
    if dimensions:
        return editor.reduce(flat, initial, dimensions, i.called[0])
    return applied(i.called[0], (initial, flat), flat.shape.dimensions, editor)


def _transpose(i: HloInstruction, editor: Editor) -> HloInstruction:
    return editor.transpose(_flat(i.operands[0], editor), _kept(i, i.attributes.permutation))


def _reverse(i: HloInstruction, editor: Editor) -> HloInstruction:
    flat, dimensions = _flat(i.operands[0], editor), tuple(_kept(i, i.attributes.dimensions))
    if not dimensions:
        return flat
    return editor.add(Opcode.REVERSE, (flat,), ReverseAttributes(dimensions))


def _slice(i: HloInstruction, editor: Editor) -> HloInstruction | None:
    (operand,) = i.operands
    kept = long(operand.shape.dimensions)
    if len(kept) == operand.shape.rank:
        return None
    a = i.attributes
    boxes = ([part[d] for d in kept] for part in (a.starts, a.limits, a.strides))
    return editor.sliced(_flat(operand, editor), *boxes)


_SQUEEZES: Mapping[Opcode, EditorRule] = {
    **dict.fromkeys(ELEMENTWISE, _same),
    Opcode.BROADCAST: _broadcast,
    Opcode.IOTA: _iota,
    Opcode.REDUCE: _reduce,
    Opcode.REVERSE: _reverse,
    Opcode.SLICE: _slice,
    Opcode.TRANSPOSE: _transpose,
}


class Squeeze(RewritePass):
    """Reshapes around operations so that none has dimensions of size 1; reshapes of reshapes merge.

    Programs keep reduced dimensions with size 1 and broadcast them again. Without them the
    broadcast reads the reduction itself, by which fusion recognises that both belong to one row.
    """

    name = "squeeze"
    opcodes = _SQUEEZES.keys()

    def _rule(self, i: HloInstruction, editor: Editor) -> HloInstruction | None:
        if not i.shape.is_array:
            return None
        has_ones = any(1 in part.shape.dimensions for part in (i, *i.operands))
        # `EmptyArrays` handles dimensions of size 0.
        if not has_ones or 0 in i.shape.dimensions:
            return None
        squeezed = _SQUEEZES[i.opcode](i, editor)
        return None if squeezed is None else editor.reshape(squeezed, i.shape.dimensions)

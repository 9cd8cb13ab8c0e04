"""The index maps of operations that only move elements: the operand index of each result index."""

from collections.abc import Sequence

from xla_contract.types.opcode import Opcode
from xla_server.ir.analysis.affine import Affine, linear, multi_index
from xla_server.ir.module import HloInstruction

MAPPED = frozenset(
    {Opcode.BROADCAST, Opcode.RESHAPE, Opcode.REVERSE, Opcode.SLICE, Opcode.TRANSPOSE}
)
"""Operations that only move elements: each element of the result is one of the operand."""


def operand_index(i: HloInstruction, index: Sequence[Affine]) -> tuple[Affine, ...]:
    """Return the index of the operand's element that a MAPPED operation has at `index`."""
    a = i.attributes
    if i.opcode is Opcode.BROADCAST:
        return tuple(index[d] for d in a.dimensions)
    if i.opcode is Opcode.RESHAPE:
        number = linear(index, i.shape.dimensions)
        return multi_index(number, i.operands[0].shape.dimensions)
    if i.opcode is Opcode.TRANSPOSE:
        inverse = sorted(range(len(index)), key=a.permutation.__getitem__)
        return tuple(index[d] for d in inverse)
    if i.opcode is Opcode.SLICE:
        steps = zip(index, a.starts, a.strides, strict=True)
        return tuple(position * stride + start for position, start, stride in steps)
    assert i.opcode is Opcode.REVERSE
    return tuple(
        position * -1 + (size - 1) if d in a.dimensions else position
        for d, (position, size) in enumerate(zip(index, i.shape.dimensions, strict=True))
    )

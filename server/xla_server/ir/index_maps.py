"""The index maps of operations that move elements: where in the operand an element comes from.

Fusion follows them to find values that are computed at several indices, code generation to compute
an element; each has indices of its own.
"""

from collections.abc import Sequence
from typing import Protocol, Self, TypeVar

from xla_contract.opcode import Opcode
from xla_server.ir.module import HloInstruction


class Index(Protocol):
    """An index along one dimension."""

    def moved(self, start: int, stride: int) -> Self:
        """Return start + self * stride."""


AnyIndex = TypeVar("AnyIndex", bound=Index)

MAPPED = frozenset({Opcode.BROADCAST, Opcode.REVERSE, Opcode.SLICE, Opcode.TRANSPOSE})
"""Operations whose elements are operand elements at affine functions of their indices."""


def operand_index(i: HloInstruction, index: Sequence[AnyIndex]) -> tuple[AnyIndex, ...]:
    """Return the index of the operand's element that a MAPPED operation has at `index`."""
    a = i.attributes
    if i.opcode is Opcode.BROADCAST:
        return tuple(index[d] for d in a.dimensions)
    if i.opcode is Opcode.TRANSPOSE:
        inverse = sorted(range(len(index)), key=a.permutation.__getitem__)
        return tuple(index[d] for d in inverse)
    if i.opcode is Opcode.SLICE:
        steps = zip(index, a.starts, a.strides, strict=True)
        return tuple(position.moved(start, stride) for position, start, stride in steps)
    assert i.opcode is Opcode.REVERSE
    return tuple(
        position.moved(size - 1, -1) if d in a.dimensions else position
        for d, (position, size) in enumerate(zip(index, i.shape.dimensions, strict=True))
    )

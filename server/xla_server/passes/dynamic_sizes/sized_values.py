"""Values of dynamic shape while a program of static shape is written.

An array is an instruction of static shape with its size in each dimension; elements beyond the
sizes are padding, as in xla_server.ops.numerics.dynamic_bounds.PaddedArray, whose operations it
has.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from xla_contract.types.dimension_numbers import PaddingDimension
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloInstruction
from xla_server.ir.traversal import leaves
from xla_server.ops.evaluation import TOKEN, Array, Token, Value
from xla_server.ops.numerics.dynamic_bounds import broadcast_to, padded, part_of, sliced, whole_of
from xla_server.passes.framework.editor import Editor


@dataclasses.dataclass(frozen=True, slots=True)
class PaddedExtent:
    """Sizes of an array: padded, as in memory, and without padding."""

    whole: tuple[int, ...]
    sizes: tuple[int, ...]


PaddedExtents: TypeAlias = "PaddedExtent | tuple[PaddedExtents, ...] | None"
"""The extents of a value: a PaddedExtent for an array, None for a token, a tuple for a tuple."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SizedArray:
    """An array: the elements of `whole` within `shape`."""

    editor: Editor
    whole: HloInstruction
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def plain(self) -> "SizedArray":
        """The array without its padding, as an array of its own."""
        if self.whole.shape.dimensions == self.shape:
            return self
        starts = [0] * self.ndim
        return array_of(self.editor, self.editor.sliced(self.whole, starts, self.shape))


Known: TypeAlias = "SizedArray | Token | tuple[Known, ...]"
"""A value of a program that is being written."""


def array_of(editor: Editor, instruction: HloInstruction) -> SizedArray:
    """The result of an instruction, as an array without padding."""
    return SizedArray(editor, instruction, instruction.shape.dimensions)


@sliced.register
def _(array: SizedArray, sizes: Sequence[int]) -> Any:
    sizes = tuple(map(min, sizes, array.shape))
    return SizedArray(array.editor, array.plain.whole, sizes).plain


@padded.register
def _(array: SizedArray, sizes: Sequence[int]) -> Any:
    if array.shape == tuple(sizes):
        return array
    editor, operand = array.editor, array.plain.whole
    missing = zip(array.shape, sizes, strict=True)
    zero = editor.constant(0, operand.shape.element_type)
    padding = [PaddingDimension(0, size - old, 0) for old, size in missing]
    return array_of(editor, editor.pad(operand, zero, padding))


@broadcast_to.register
def _(array: SizedArray, sizes: Sequence[int]) -> Any:
    editor, operand = array.editor, array.plain.whole
    kept = [n for n, (old, new) in enumerate(zip(array.shape, sizes, strict=True)) if old == new]
    narrow = editor.reshape(operand, [array.shape[n] for n in kept])
    return array_of(editor, editor.broadcast(narrow, kept, sizes))


def extents_of(value: "Value | Known") -> PaddedExtents:
    """Return the extents of a value of a run, or of a program that is being written."""
    if isinstance(value, tuple):
        return tuple(map(extents_of, value))
    if isinstance(value, Token):
        return None
    if isinstance(value, SizedArray):
        return PaddedExtent(value.whole.shape.dimensions, value.shape)
    return PaddedExtent(whole_of(value).shape, value.shape)


def arrays_of(value: Value) -> Iterator[Array]:
    """The padded arrays of a value of a run, in order, row-major in memory."""
    for leaf in leaves(value):
        if not isinstance(leaf, Token):
            whole = whole_of(leaf)
            # numpy's function turns an array of rank 0 into one of rank 1.
            yield np.ascontiguousarray(whole).reshape(whole.shape)


def value_of(extents: PaddedExtents, arrays: Iterator[Array]) -> Value:
    """Build a value of these extents from the next padded arrays."""
    if extents is None:
        return TOKEN
    if isinstance(extents, tuple):
        return tuple(value_of(part, arrays) for part in extents)
    return part_of(next(arrays), extents.sizes)


def whole_shape(shape: Shape, extents: PaddedExtents) -> Shape:
    """The static shape of the padded arrays of a value of this shape."""
    if isinstance(extents, tuple):
        pairs = zip(shape.tuple_shapes, extents, strict=True)
        return Shape.tuple_of([whole_shape(part, inside) for part, inside in pairs])
    return Shape.token() if extents is None else shape.with_dimensions(extents.whole)


def unpacked(editor: Editor, packed: HloInstruction, extents: PaddedExtents) -> Known:
    """The value whose padded arrays are the results of an instruction."""
    if extents is None:
        return TOKEN
    if isinstance(extents, tuple):
        return tuple(
            unpacked(editor, editor.element(packed, number), part)
            for number, part in enumerate(extents)
        )
    return SizedArray(editor, packed, extents.sizes)


def packed(editor: Editor, value: Known) -> HloInstruction:
    """One instruction whose results are the padded arrays of a value."""
    if isinstance(value, tuple):
        return editor.add(Opcode.TUPLE, [packed(editor, part) for part in value])
    return editor.add(Opcode.AFTER_ALL, ()) if isinstance(value, Token) else value.whole


def padded_arrays(value: Known) -> list[HloInstruction]:
    """The padded arrays of a value, in order."""
    return [leaf.whole for leaf in leaves(value) if isinstance(leaf, SizedArray)]

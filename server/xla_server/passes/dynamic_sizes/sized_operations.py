"""Operations on sizes and on values of dynamic shape, written for a program of static shape."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from xla_contract.ops.shaping.set_dimension_size import SetDimensionSizeAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import TOKEN
from xla_server.ops.numerics.dynamic_bounds import padded, replaced_sizes, sliced, with_size
from xla_server.passes.dynamic_sizes.known_sizes import KnownSizes
from xla_server.passes.dynamic_sizes.sized_values import Known, SizedArray, array_of
from xla_server.passes.framework.editor import Editor


class UnspecialisedError(Exception):
    """An instruction has no static form at these sizes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """An instruction to be written for operands of known sizes."""

    i: HloInstruction
    operands: Sequence[Known]
    editor: Editor
    numbers: KnownSizes


def _literal(literal: Literal, editor: Editor) -> Known:
    if literal.shape.is_tuple:
        return tuple(_literal(part, editor) for part in literal.elements)
    if literal.shape.is_token:
        return TOKEN
    return array_of(editor, editor.constant(literal.actual, literal.shape.element_type))


def _dimension_size(o: Operation) -> Known:
    size = cast(SizedArray, o.operands[0]).shape[o.i.attributes.dimension]
    return array_of(o.editor, o.editor.constant(size, o.i.shape.element_type))


def _set_dimension_size(o: Operation) -> Known:
    attributes: SetDimensionSizeAttributes = o.i.attributes
    operand, dimension = cast(SizedArray, o.operands[0]), attributes.dimension
    bound = o.i.shape.dimensions[dimension]
    size = _number(o.operands[1], o.numbers)
    if not 0 <= size <= bound:
        raise UnspecialisedError
    whole: Any = array_of(o.editor, operand.whole)
    if size > whole.shape[dimension]:
        whole = padded(whole, with_size(whole.shape, dimension, bound))
    return SizedArray(o.editor, whole.whole, with_size(operand.shape, dimension, size))


def _dynamic_reshape(o: Operation) -> Known:
    operand, shape = cast(SizedArray, o.operands[0]).plain.whole, o.i.shape
    sizes = [
        _number(part, o.numbers) if shape.is_dynamic(number) else shape.dimensions[number]
        for number, part in enumerate(o.operands[1:])
    ]
    count, taken = operand.shape.element_count, math.prod(sizes)
    is_within = all(0 <= n <= bound for n, bound in zip(sizes, shape.dimensions, strict=True))
    if not is_within or taken > count:
        raise UnspecialisedError
    flat = o.editor.sliced(o.editor.reshape(operand, [count]), [0], [taken])
    return array_of(o.editor, o.editor.reshape(flat, sizes))


def _number(size: Known, numbers: KnownSizes) -> int:
    found = numbers.of(cast(SizedArray, size).plain.whole)
    if found is None:
        raise UnspecialisedError
    return found


SIZED_OPERATIONS: Mapping[Opcode, Callable[[Operation], Known]] = {
    Opcode.ADD_DEPENDENCY: lambda o: o.operands[0],
    Opcode.AFTER_ALL: lambda o: TOKEN,
    Opcode.CONSTANT: lambda o: _literal(o.i.attributes.literal, o.editor),
    Opcode.COPY: lambda o: o.operands[0],
    Opcode.DOMAIN: lambda o: o.operands[0],
    Opcode.DYNAMIC_RESHAPE: _dynamic_reshape,
    Opcode.GET_DIMENSION_SIZE: _dimension_size,
    Opcode.GET_TUPLE_ELEMENT: lambda o: cast(Any, o.operands[0])[o.i.attributes.index],
    Opcode.OPT_BARRIER: lambda o: o.operands[0],
    Opcode.SET_DIMENSION_SIZE: _set_dimension_size,
    Opcode.TUPLE: lambda o: tuple(o.operands),
}
"""Opcode -> the function that writes such an operation and returns its value.

The functions raise UnspecialisedError for a size that is unknown before the run, and where the
evaluator raises.
"""


def updated(i: HloInstruction, arrays: Sequence[SizedArray]) -> SizedArray:
    """Return a dynamic-update-slice of smaller arrays, as evaluator/dynamic_shapes.py has it."""
    operand, update = arrays[:2]
    editor = operand.editor
    bounds, box = (part.shape.dimensions for part in i.operands[:2])
    starts = [part for array in arrays[2:] for part in _scalars(array)]
    moved = [
        _between(editor, start, bound - size)
        for start, bound, size in zip(starts, bounds, box, strict=True)
    ]
    full: Any = padded(operand, bounds)
    whole = editor.add(i.opcode, [full.whole, update.whole, *moved], i.attributes)
    operands = (part.shape for part in i.operands[:2])
    sizes = replaced_sizes(operand.shape, update.shape, *operands)
    return cast(SizedArray, sliced(array_of(editor, whole), sizes))


def _scalars(array: SizedArray) -> list[HloInstruction]:
    if not array.ndim:
        return [array.whole]
    return [array.editor.at(array.whole, n) for n in range(*array.shape)]


def _between(editor: Editor, start: HloInstruction, last: int) -> HloInstruction:
    """Return a start clamped to 0 ... `last`."""
    is_unsigned = start.shape.element_type.is_unsigned_integer
    wide = ElementType.U64 if is_unsigned else ElementType.S64
    low, high = (editor.constant(number, wide) for number in (0, last))
    return editor.add(Opcode.CLAMP, (low, editor.convert(start, wide), high))

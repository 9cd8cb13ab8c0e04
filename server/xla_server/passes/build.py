"""Instructions that passes make again and again, and questions they ask of constants."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_contract.element_type import ElementType
from xla_contract.literal import Literal
from xla_contract.opcode import Opcode
from xla_contract.ops.broadcast import BroadcastAttributes
from xla_contract.ops.constant import ConstantAttributes
from xla_contract.ops.convert import ConvertAttributes
from xla_contract.ops.elementwise import BINARY
from xla_contract.ops.parameter import ParameterAttributes
from xla_contract.ops.reduce import ReduceAttributes
from xla_contract.ops.reshape import ReshapeAttributes
from xla_contract.ops.slice import SliceAttributes
from xla_contract.ops.transpose import TransposeAttributes
from xla_contract.ops.tuple import GetTupleElementAttributes
from xla_contract.shape import Shape
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ir.splat import literal_of as literal_of
from xla_server.ir.splat import splat as splat
from xla_server.passes.edit import Editor


def constant(editor: Editor, value: Any, element_type: ElementType) -> HloInstruction:
    """A constant array of this type; Python numbers are converted to it."""
    array = np.asarray(value)
    if array.dtype != element_type.dtype:
        array = array.astype(element_type.dtype)
    literal = Literal.from_numpy(array, Shape.array(element_type, array.shape))
    return editor.add(Opcode.CONSTANT, (), ConstantAttributes(literal))


def full(
    editor: Editor, value: Any, element_type: ElementType, dimensions: Sequence[int]
) -> HloInstruction:
    """A scalar constant broadcast to these dimensions."""
    return broadcast(editor, constant(editor, value, element_type), (), dimensions)


def broadcast(
    editor: Editor, operand: HloInstruction, mapped: Sequence[int], dimensions: Sequence[int]
) -> HloInstruction:
    """The operand with its dimensions at the `mapped` ones; itself where nothing changes."""
    if operand.shape.dimensions == tuple(dimensions) and list(mapped) == list(range(len(mapped))):
        return operand
    attributes = BroadcastAttributes(tuple(mapped), tuple(dimensions))
    return editor.add(Opcode.BROADCAST, (operand,), attributes)


def reshape(editor: Editor, operand: HloInstruction, dimensions: Sequence[int]) -> HloInstruction:
    """The operand under other dimensions; itself where they are its own."""
    while operand.opcode is Opcode.RESHAPE:
        (operand,) = operand.operands
    if operand.shape.dimensions == tuple(dimensions):
        return operand
    return editor.add(Opcode.RESHAPE, (operand,), ReshapeAttributes(tuple(dimensions)))


def transpose(
    editor: Editor, operand: HloInstruction, permutation: Sequence[int]
) -> HloInstruction:
    """The operand with its dimensions permuted; itself where they stay."""
    if list(permutation) == list(range(len(permutation))):
        return operand
    return editor.add(Opcode.TRANSPOSE, (operand,), TransposeAttributes(tuple(permutation)))


def convert(editor: Editor, operand: HloInstruction, target: ElementType) -> HloInstruction:
    """The operand in this type; itself where it has it."""
    if operand.shape.element_type is target:
        return operand
    return editor.add(Opcode.CONVERT, (operand,), ConvertAttributes(target))


def sliced(
    editor: Editor,
    operand: HloInstruction,
    starts: Sequence[int],
    limits: Sequence[int],
    strides: Sequence[int] | None = None,
) -> HloInstruction:
    """A box of the operand."""
    steps = (1,) * len(starts) if strides is None else tuple(strides)
    attributes = SliceAttributes(tuple(starts), tuple(limits), steps)
    return editor.add(Opcode.SLICE, (operand,), attributes)


def index_elements(
    editor: Editor, indices: HloInstruction, mapped: Sequence[int], rank: int
) -> list[HloInstruction]:
    """The elements of the only index vector, each at the dimension it is mapped to; else zeros."""
    flat = reshape(editor, indices, (len(mapped),))
    zero = constant(editor, 0, indices.shape.element_type)
    starts = [zero] * rank
    for number, d in enumerate(mapped):
        starts[d] = reshape(editor, sliced(editor, flat, (number,), (number + 1,)), ())
    return starts


def reduce(
    editor: Editor,
    operand: HloInstruction,
    initial: HloInstruction,
    dimensions: Sequence[int],
    reducer: HloComputation,
) -> HloInstruction:
    """Dimensions of one array folded away."""
    attributes = ReduceAttributes(tuple(dimensions))
    return editor.add(Opcode.REDUCE, (operand, initial), attributes, (reducer,))


def element(editor: Editor, operand: HloInstruction, index: int) -> HloInstruction:
    """One element of a tuple."""
    if operand.opcode is Opcode.TUPLE:
        return operand.operands[index]
    return editor.add(Opcode.GET_TUPLE_ELEMENT, (operand,), GetTupleElementAttributes(index))


def zeros(editor: Editor, shape: Shape) -> HloInstruction:
    """Zeros of any shape; a token where the shape has one."""
    if shape.is_tuple:
        return editor.add(Opcode.TUPLE, [zeros(editor, part) for part in shape.tuple_shapes])
    if shape.is_token:
        return editor.add(Opcode.AFTER_ALL, ())
    if not shape.element_count:
        return empty(editor, shape)
    return full(editor, 0, shape.element_type, shape.dimensions)


def empty(editor: Editor, shape: Shape) -> HloInstruction:
    """The constant of an array shape without elements."""
    return constant(
        editor, np.empty(shape.dimensions, shape.element_type.dtype), shape.element_type
    )


def is_empty(instruction: HloInstruction) -> bool:
    """Whether an array has no elements."""
    return instruction.shape.is_array and 0 in instruction.shape.dimensions


def count(dimensions: Sequence[int]) -> int:
    """The number of elements."""
    return math.prod(dimensions)


def combiner(computation: HloComputation) -> Opcode | None:
    """The operation that a computation of two scalars of one type is, or None."""
    root, parameters = computation.root, computation.parameters
    if len(parameters) != 2 or len(root.operands) != 2:
        return None
    if set(root.operands) != set(parameters) or root.opcode not in BINARY:
        return None
    types = {part.shape.element_type for part in (root, *parameters)}
    return root.opcode if len(types) == 1 else None


def binary_computation(editor: Editor, opcode: Opcode, element_type: ElementType) -> HloComputation:
    """A computation of two scalars that is one operation; the caller puts it into the module."""
    shape = Shape.scalar(element_type)
    parameters = [editor.add(Opcode.PARAMETER, (), ParameterAttributes(n, shape)) for n in range(2)]
    root = editor.add(opcode, parameters)
    return editor.computation(
        f"{opcode}_{element_type.text}", [*parameters, root], root, parameters
    )

"""Operations on values of dynamic shape.

Such a value is an array of its actual size. In programs that have dynamic dimensions, each
evaluator is wrapped: the wrapper makes the sizes of the operands fit each other, and passes the
evaluator the instruction with the sizes of this run.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from xla_contract.ops.definitions import definition
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator.dynamic_operands import UPDATED_IN_PLACE, fit_operands
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.traversal import leaves
from xla_server.ops.evaluation import Array, Evaluator, Frame, Token, Value
from xla_server.ops.numerics.dynamic_bounds import padded, plain, replaced_sizes, sliced

ANY_SIZE = frozenset(
    {
        Opcode.ADD_DEPENDENCY,
        Opcode.AFTER_ALL,
        Opcode.ASYNC_DONE,
        Opcode.ASYNC_START,
        Opcode.ASYNC_UPDATE,
        Opcode.CALL,
        Opcode.CONDITIONAL,
        Opcode.COPY,
        Opcode.COPY_DONE,
        Opcode.COPY_START,
        Opcode.CUSTOM_CALL,
        Opcode.DOMAIN,
        Opcode.DYNAMIC_RESHAPE,
        Opcode.FUSION,
        Opcode.GET_DIMENSION_SIZE,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.INFEED,
        Opcode.OPT_BARRIER,
        Opcode.OUTFEED,
        Opcode.RECV,
        Opcode.RECV_DONE,
        Opcode.SEND,
        Opcode.SEND_DONE,
        Opcode.SET_DIMENSION_SIZE,
        Opcode.TUPLE,
        Opcode.WHILE,
    }
)
"""Operations that take values of any size without the wrapper: they pass them on, or handle sizes
themselves."""

_MAKES_SIZES = frozenset({Opcode.DYNAMIC_RESHAPE, Opcode.SET_DIMENSION_SIZE})


def has_dynamic_shapes(program: HloModule | HloComputation) -> bool:
    """Return whether some value of the program may be smaller than the bounds of its shape."""
    computations = program.computations if isinstance(program, HloModule) else program.reachable()
    return any(
        instruction.opcode in _MAKES_SIZES or not instruction.shape.is_static
        for computation in computations
        for instruction in computation.instructions
    )


def at_actual_sizes(opcode: Opcode, evaluate: Evaluator) -> Evaluator:
    """The evaluator of an opcode for operands that may be smaller than their bounds.

    It raises InvalidArgumentError if sizes that must agree do not, ShapeError if the
    operation cannot be applied at the sizes of the run, and UnimplementedError for an operation
    that takes no dynamic sizes.
    """
    if opcode in ANY_SIZE:
        return evaluate

    def evaluate_any(
        instruction: HloInstruction, operands: Sequence[Value], frame: Frame
    ) -> Value | Deep[Value]:
        operands = [plain(part) if isinstance(part, np.ndarray) else part for part in operands]
        if all(map(_has_bounds, operands, instruction.operands)):
            return evaluate(instruction, operands, frame)
        if opcode in UPDATED_IN_PLACE:
            return _updated(instruction, operands, frame, evaluate)
        arrays = [cast(Array, operand) for operand in operands]
        arrays, attributes = fit_operands(instruction, arrays)
        actual = dataclasses.replace(
            instruction,
            attributes=attributes,
            shape=actual_shape(instruction, arrays, attributes),
        )
        return evaluate(actual, arrays, frame)

    return evaluate_any


def is_full(i: HloInstruction, value: Any) -> bool:
    """Return whether the arrays of a value of `i` have the sizes of its shape."""
    parts = zip(leaves(value), i.shape.leaves(), strict=True)
    return all(isinstance(part, Token) or part.shape == shape.dimensions for part, shape in parts)


def _has_bounds(value: Value, operand: HloInstruction) -> bool:
    return not isinstance(value, np.ndarray) or value.shape == operand.shape.dimensions


def actual_shape(
    instruction: HloInstruction, operands: Sequence[Array], attributes: object
) -> Shape:
    """Return the shape rule's result for operands of these sizes; raises its errors."""
    shapes = [
        operand.shape.with_dimensions(array.shape)
        for operand, array in zip(instruction.operands, operands, strict=True)
    ]
    called = [computation.program_shape for computation in instruction.called]
    return definition(instruction.opcode).infer(shapes, attributes, called)


def _updated(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame, evaluate: Evaluator
) -> Value:
    """Write the valid elements of the update where its bounds fit into those of the operand.

    The result is as large as the operand, or as the update if that replaces the whole operand.
    """
    operand, update = (cast(Array, value) for value in operands[:2])
    bounds, box = (part.shape.dimensions for part in instruction.operands[:2])
    starts = [number for value in operands[2:] for number in np.ravel(cast(Array, value))]
    moved = [
        np.asarray(min(max(int(start), 0), bound - size), np.int64)
        for start, bound, size in zip(starts, bounds, box, strict=True)
    ]
    whole = evaluate(instruction, [padded(operand, bounds), update, *moved], frame)
    shapes = (part.shape for part in instruction.operands[:2])
    return sliced(cast(Array, whole), replaced_sizes(operand.shape, update.shape, *shapes))

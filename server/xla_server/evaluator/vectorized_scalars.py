"""Computations on scalars applied to whole arrays of scalars.

Reducers, comparators and combiners are written for scalars. Where such a computation is made of
elementwise operations only, its evaluators give the same results on arrays, element by element,
in one pass; any other computation is called once for each element.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_contract.types.opcode import Opcode
from xla_server.ir.explicit_stack import Deep, result_of
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ir.traversal import callees_first
from xla_server.ops.elementwise.elementwise_table import ELEMENTWISE
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.evaluators import EVALUATORS

_IDENTITY_ON_SCALARS = frozenset(
    {
        Opcode.BROADCAST,
        Opcode.COPY,
        Opcode.OPT_BARRIER,
        Opcode.RESHAPE,
        Opcode.REVERSE,
        Opcode.TRANSPOSE,
    }
)
_STRUCTURE = frozenset({Opcode.CONSTANT, Opcode.GET_TUPLE_ELEMENT, Opcode.PARAMETER, Opcode.TUPLE})
_CONVERSIONS = frozenset({Opcode.BITCAST_CONVERT, Opcode.STOCHASTIC_CONVERT})
_LIFTED = ELEMENTWISE | _CONVERSIONS | _IDENTITY_ON_SCALARS | _STRUCTURE
_CALLS = frozenset({Opcode.CALL, Opcode.FUSION, Opcode.MAP})


def call(frame: Frame, computation: HloComputation, arguments: Sequence[Array]) -> Value:
    """Return the results of a computation on scalars for each element of the arguments.

    The arguments have one common shape, which is also that of the result; if the computation
    returns a tuple of scalars, it is that of each element. Raises what the evaluators raise.
    """
    frame.check_cancelled()
    arguments = [np.asarray(argument) for argument in arguments]
    batch = arguments[0].shape if arguments else ()
    if can_lift(computation):
        return result_of(_evaluate(frame, computation, arguments, batch))
    return _each(frame, computation, arguments, batch)


def can_lift(computation: HloComputation, known: dict[HloComputation, bool] | None = None) -> bool:
    """Return whether every instruction works element by element on scalars.

    `known` has the results of computations asked about before.
    """
    known = {} if known is None else known
    for each in callees_first([computation]):
        if each not in known:
            known[each] = all(_lifts(part, known) for part in each.instructions)
    return known[computation]


def _lifts(instruction: HloInstruction, known: dict[HloComputation, bool]) -> bool:
    if instruction.opcode is Opcode.CONSTANT and instruction.shape.is_tuple:
        return False
    is_call = instruction.opcode in _CALLS
    parts = instruction, *instruction.operands
    return (known[instruction.called[0]] if is_call else instruction.opcode in _LIFTED) and all(
        leaf.is_scalar for part in parts for leaf in part.shape.leaves()
    )


def _evaluate(
    frame: Frame, computation: HloComputation, arguments: Sequence[Value], batch: tuple[int, ...]
) -> Deep[Value]:
    frame.check_cancelled()
    values: dict[HloInstruction, Value] = dict(zip(computation.parameters, arguments, strict=True))
    for instruction in computation.instructions:
        if instruction.opcode is not Opcode.PARAMETER:
            operands = [values[operand] for operand in instruction.operands]
            if instruction.opcode in _CALLS:
                called = _evaluate(frame, instruction.called[0], operands, batch)
                values[instruction] = yield called
            else:
                values[instruction] = _evaluate_one(frame, instruction, operands, batch)
    return values[computation.root]


def _evaluate_one(
    frame: Frame, instruction: HloInstruction, operands: Sequence[Value], batch: tuple[int, ...]
) -> Value:
    opcode = instruction.opcode
    if opcode is Opcode.TUPLE:
        return tuple(operands)
    if opcode is Opcode.GET_TUPLE_ELEMENT:
        index: int = instruction.attributes.index
        return cast(tuple[Value, ...], operands[0])[index]
    if opcode in _IDENTITY_ON_SCALARS:
        return operands[0]
    value = cast(Array, EVALUATORS[opcode](instruction, operands, frame))
    return np.broadcast_to(value, batch) if opcode is Opcode.CONSTANT else value


def _each(
    frame: Frame, computation: HloComputation, arguments: Sequence[Array], batch: tuple[int, ...]
) -> Value:
    result = computation.root.shape
    shapes = result.parts
    outputs = [np.empty(batch, shape.element_type.dtype) for shape in shapes]
    for position in np.ndindex(batch):
        value = frame.call(computation, [np.asarray(array[position]) for array in arguments])
        for output, part in zip(outputs, value if result.is_tuple else (value,), strict=True):  # type: ignore[arg-type]
            output[position] = part
    return tuple(outputs) if result.is_tuple else outputs[0]

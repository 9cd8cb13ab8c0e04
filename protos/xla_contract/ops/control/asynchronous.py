"""async-start, async-update and async-done: a computation called in two or more steps.

Semantics: XLA's kAsyncStart, kAsyncUpdate, kAsyncDone. The value between the steps is a tuple: the
tuple of the operands, the result, and whatever the producer appends to them.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.attribute_fields import Scalar, Special
from xla_contract.ops.signature import check_takes, exactly, listed
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


def _read_context(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> tuple[Shape, ...]:
    if proto.opcode != Opcode.ASYNC_START:
        return ()
    if len(shape.tuple_shapes) < 2:
        raise InvalidArgumentError(
            f"the result must be a tuple ((operands), result, ...), got {shape.without_layout()}"
        )
    return tuple(part.without_layout() for part in shape.tuple_shapes[2:])


@dataclasses.dataclass(frozen=True, slots=True)
class AsyncAttributes:
    """The thread the computation runs on, "" for the main one.

    `context` are the shapes that async-start's result has after operands and result.
    """

    execution_thread: Annotated[str, Scalar("async_execution_thread")] = ""
    context: Annotated[tuple[Shape, ...], Special(_read_context)] = ()


def infer_async_start(
    operands: Sequence[Shape], attributes: AsyncAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The operands, the computation's result, and the shapes declared after them."""
    (computation,) = exactly(called, ("the computation",))
    check_takes("computation", computation, operands)
    given = Shape.tuple_of([operand.without_layout() for operand in operands])
    return Shape.tuple_of([given, computation.result.without_layout(), *attributes.context])


def infer_async_update(
    operands: Sequence[Shape], attributes: AsyncAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The operand's shape, which must be that of async-start's result."""
    return _started(operands, called)


def infer_async_done(
    operands: Sequence[Shape], attributes: AsyncAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The result inside the operand."""
    return _started(operands, called).tuple_shapes[1]


def _started(operands: Sequence[Shape], called: Sequence[ProgramShape]) -> Shape:
    if len(operands) != 1:
        raise ShapeError(f"there must be one operand, got {listed(operands)}")
    start = operands[0].without_layout()
    if len(start.tuple_shapes) < 2 or not start.tuple_shapes[0].is_tuple:
        raise ShapeError(f"the operand must be a tuple ((operands), result, ...), got {start}")
    # Older writers name the computation at each step.
    for signature in called:
        check_takes("computation", signature, start.tuple_shapes[0].tuple_shapes)
        if not signature.result.compatible(start.tuple_shapes[1]):
            raise ShapeError(
                f"the computation must give the operand's result, got {signature} and {start}"
            )
    return start

"""Arguments of programs."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from xla_client.coercion import literals
from xla_client.runs.step_result import StepResult
from xla_client.session.buffer import Buffer
from xla_client.session.session import Session
from xla_contract.errors import InvalidArgumentError, LostError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape

Argument: TypeAlias = Any
"""A Buffer, an Execution, whose result may be still to come, a Literal, or a value that numpy
converts to an array; tuples for tuple parameters.

Python's numbers and lists of them take the element type of the parameter; see `coercion.literals`.
"""


class RunUnderWay:
    """Base of Execution. `isinstance` of an abstract class would take several times as long."""

    __slots__ = ()


def without_executions(arguments: Sequence[Argument]) -> list[Argument]:
    """Return the arguments, with the buffers of each Execution instead of it."""
    return [_buffers_of(each) if isinstance(each, RunUnderWay) else each for each in arguments]


def _buffers_of(execution: Any) -> Argument:
    return execution.buffers


def on_device(
    session: Session,
    arguments: Sequence[Argument],
    parameters: Sequence[Shape],
    device: int,
    timeout: float | None,
) -> list[Buffer]:
    """The arguments as buffers: Buffers as they are, everything else uploaded.

    Args:
        session: The session to upload to.
        arguments: Arrays of the parameters' element types and dimensions, Python numbers and lists
            that are converted to them, Buffers, or Executions, whose results are used.
        parameters: The shapes of the program's parameters.
        device: The device of the buffers.
        timeout: Seconds for each upload; None for no limit.

    Returns:
        A buffer for each argument.

    Raises:
        InvalidArgumentError: An argument, which is named, does not fit its parameter.
    """
    require_count(arguments, parameters)
    buffers, passed = [], without_executions(arguments)
    for number, (argument, shape) in enumerate(zip(passed, parameters, strict=True)):
        try:
            buffers.append(as_buffer(session, argument, shape, device, timeout))
        except (InvalidArgumentError, LostError) as error:
            raise error.at(f"argument {number}") from error.__cause__
    return buffers


def require_count(arguments: Sequence[Argument], parameters: Sequence[Shape]) -> None:
    """Raise InvalidArgumentError unless there is one argument per parameter."""
    if len(arguments) != len(parameters):
        raise InvalidArgumentError(
            f"a program must get one argument per parameter, got {len(arguments)} for "
            f"({', '.join(map(str, parameters))})",
            hint=_count_hint(arguments, parameters),
        )


def _count_hint(arguments: Sequence[Argument], parameters: Sequence[Shape]) -> str:
    if any(isinstance(argument, dict | tuple | list) for argument in arguments):
        return "Programs take flat arguments: run(*jax.tree.leaves(arguments)), or run(*values)."
    if len(arguments) > len(parameters):
        return "jax.jit leaves out arguments that its function does not use, without keep_unused."
    return ""


def require_compatible(buffer: Buffer, shape: Shape) -> Buffer:
    """The buffer; InvalidArgumentError unless it fits its parameter."""
    if not buffer.shape.compatible(shape):
        raise InvalidArgumentError(
            f"a buffer must have the shape of its parameter, got {buffer.shape} for {shape}"
        )
    return buffer


def as_literal(value: Argument, shape: Shape | None = None) -> Literal:
    """The value in the type and layout of `shape`, else by the rule of literals.

    Args:
        value: An array, a Literal, a number or lists of numbers.
        shape: The shape to give it.

    Returns:
        The Literal.

    Raises:
        InvalidArgumentError: The value is on a device, or `xla_client.coercion.as_literal` raises
            this.
    """
    if isinstance(value, Buffer | StepResult):
        raise InvalidArgumentError(f"a value on this side is needed, got {value!r}")
    return literals.as_literal(value, shape, copy=False)


def as_buffer(
    session: Session, argument: Argument, shape: Shape, device: int, timeout: float | None
) -> Buffer:
    """Convert one argument as `on_device` does; raises InvalidArgumentError."""
    if not isinstance(argument, Buffer):
        literal = as_literal(argument, shape)
        return Buffer(session, session.upload(literal, device, timeout), literal.shape)
    argument.require_present()
    return require_compatible(argument, shape)

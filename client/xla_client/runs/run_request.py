"""Messages of Run, RunBatch and Launch: several executions in one call."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from xla_client.runs.arguments import Argument, as_literal, require_compatible, require_count
from xla_client.runs.step_result import StepResult
from xla_client.session.buffer import Buffer
from xla_client.session.session import Session
from xla_contract.errors import InvalidArgumentError, LostError
from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.literal import Nested, with_aligned_elements
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.value_proto import fill_value, value_from_proto
from xla_contract.wire.shape_proto import shape_to_proto

INLINE_BYTES = 1 << 17
"""Bound of the arguments that are sent in a run's message, in bytes; larger ones are uploaded
first.
"""

FETCH_BYTES = 1 << 20
"""Largest result, in bytes, that is sent in the answer; larger ones are downloaded."""

Results: TypeAlias = "Buffer | tuple[Buffer, ...]"


@dataclasses.dataclass(slots=True)
class RunStepMessage:
    """A step with the buffers it names, which must stay alive until the server has it."""

    request: extension_pb2.RunRequest
    """A run of this step alone."""
    message: extension_pb2.RunStep
    alive: list[Buffer]
    donated: list[Buffer]
    inline_bytes: int = 0
    """Size of the arguments in the message, in bytes."""

    def calling(self, call: Callable[[], Any]) -> Any:
        """The answer of a call that makes the step; what it donates cannot be used afterwards."""
        is_freed = False
        try:
            answer = call()
            is_freed = True
        finally:
            self.end_donation(is_freed=is_freed)
        return answer

    def end_donation(self, *, is_freed: bool) -> None:
        """Mark the donated buffers as given up; `is_freed` says if the server has freed them."""
        for buffer in self.donated:
            buffer.give_up(is_freed=is_freed)


def make_step(
    session: Session,
    executable: int,
    parameters: Sequence[Shape],
    arguments: Sequence[Argument],
    *,
    donate: Sequence[int],
    device: int,
    timeout: float | None,
    max_bytes: int = INLINE_BYTES,
    pipeline_id: object = None,
    label: str = "",
) -> RunStepMessage:
    """Return the step that runs an executable; small arguments are sent in it, large ones uploaded.

    `donate` are numbers of donated arguments: Buffers among them cannot be used after the call.
    `max_bytes` bounds the arguments in the message. Results of the pipeline `pipeline_id` may
    be arguments. Raises InvalidArgumentError, which names the argument that does not fit and the
    step (`label`).
    """
    require_count(arguments, parameters)
    require_numbers(donate, len(arguments))
    request = extension_pb2.RunRequest()
    step = RunStepMessage(request, request.steps.add(), [], [])
    step.message.executable.handle = executable
    for number, (argument, shape) in enumerate(zip(arguments, parameters, strict=True)):
        message = step.message.arguments.add(donate=number in donate)
        try:
            if isinstance(argument, Buffer):
                buffer = require_compatible(argument, shape)
                message.data.handle = buffer.handle
                if number in donate:
                    step.donated.append(buffer)
            elif isinstance(argument, StepResult):
                argument.require_of(pipeline_id)
                argument.require_fit(shape)
                message.result.step = argument.step
                message.result.index.extend(argument.index)
                continue
            else:
                literal = as_literal(argument, shape)
                byte_size = literal.shape.byte_size
                if step.inline_bytes + byte_size <= max_bytes:
                    step.inline_bytes += byte_size
                    fill_value(message.value, literal)
                    message.donate = False
                    continue
                buffer = Buffer(session, session.upload(literal, device, timeout), literal.shape)
                message.data.handle = buffer.handle
                message.donate = True
                step.donated.append(buffer)
        except (InvalidArgumentError, LostError) as error:
            where = f"argument {number}"
            raise error.at(f"{label}: {where}" if label else where) from error.__cause__
        step.alive.append(buffer)
    return step


def require_numbers(donate: Iterable[int], count: int) -> None:
    """Raise InvalidArgumentError unless these are numbers of arguments."""
    for number in donate:
        if not 0 <= number < count:
            raise InvalidArgumentError(
                f"donate must have numbers of arguments, got {number} with {count} arguments"
            )


def keep(message: extension_pb2.RunStep, result: Shape) -> None:
    """Request that a step's result is kept; a flat tuple as its elements."""
    message.output.keep = True
    message.output.flatten = is_flat_tuple(result)


def fetch(message: extension_pb2.RunStep, result: Shape) -> None:
    """Request that a step's result is sent back in row-major order."""
    ask_for(message.output, result)


def ask_for(output: extension_pb2.RunOutput | extension_pb2.RunPart, result: Shape) -> None:
    """Request that a result, or a part of one, is sent back in row-major order."""
    output.fetch_bytes = FETCH_BYTES
    wanted = _asked_for(result)
    if wanted is not None:
        output.shape_with_layout.CopyFrom(wanted)


@functools.lru_cache(maxsize=1024)
def _asked_for(result: Shape) -> xla_data_pb2.ShapeProto | None:
    """Return the shape to request a result in; None if the result has its layout already."""
    wanted = result.without_layout().with_default_layout()
    return shape_to_proto(wanted) if result.byte_size and wanted != result else None


def is_flat_tuple(shape: Shape) -> bool:
    """Return whether this is a tuple of no tuples."""
    return shape.is_tuple and not any(part.is_tuple for part in shape.tuple_shapes)


def kept(session: Session, handles: Sequence[int], result: Shape) -> Results:
    """The buffers of a result that was kept as `keep` says."""
    if is_flat_tuple(result):
        pairs = zip(handles, result.tuple_shapes, strict=True)
        return tuple(Buffer(session, handle, shape) for handle, shape in pairs)
    (handle,) = handles
    return Buffer(session, handle, result)


def fetched(value: extension_pb2.Value) -> Nested:
    """The arrays of a result that was sent back."""
    return with_aligned_elements(value_from_proto(value)).to_numpy()

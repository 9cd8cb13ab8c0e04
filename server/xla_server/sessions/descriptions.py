"""What the handles of a session name, for a client that comes back to take them up."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from xla_contract.errors import InvalidArgumentError, NotFoundError, XlaError
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.sessions.executions import LaunchedExecution, executions_of
from xla_server.sessions.handles import HandleKind
from xla_server.sessions.pending import PendingValue

if TYPE_CHECKING:
    from xla_server.sessions.service import XlaService


@dataclasses.dataclass(frozen=True, slots=True)
class ValueDescription:
    """A value on a device, or one that an execution is still to give, or never will."""

    shape: Shape
    is_pending: bool = False
    error: XlaError | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ExecutableDescription:
    """A compiled program."""

    name: str
    program_shape: ProgramShape


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchedStep:
    """A step of a launched execution: its result, and the values it keeps."""

    result: Shape
    outputs: Sequence[int]
    shapes: Sequence[Shape]


@dataclasses.dataclass(frozen=True, slots=True)
class ExecutionDescription:
    """A launched execution."""

    name: str
    steps: Sequence[LaunchedStep]
    is_done: bool


Description: TypeAlias = ValueDescription | ExecutableDescription | ExecutionDescription


def describe(service: "XlaService", handle: int) -> Description:
    """What a handle names.

    Raises InvalidArgumentError for one that was freed and NotFoundError for one that never was;
    an execution that somebody has waited for is NotFoundError too.
    """
    if service.executables.handles.has_issued(handle):
        compiled = service.executables.get(handle)
        return ExecutableDescription(compiled.name, compiled.program_shape)
    if service.handles.was_issued(handle, HandleKind.EXECUTION):
        return _execution(executions_of(service).get(handle))
    entry = service.data.entry(handle)
    if not isinstance(entry, PendingValue):
        return ValueDescription(entry.shape)
    error = None
    try:
        entry.require_no_error()
    except XlaError as raised:
        error = raised
    return ValueDescription(entry.shape, error is None and not entry.has_value, error)


def described_after(service: "XlaService", after: int) -> Iterator[tuple[int, Description]]:
    """Values, executables, executions, each in the order in which they were made.

    They begin behind the handle `after`, live or freed, or with the first for 0. Raises
    NotFoundError for a handle that the session never gave to any of them.
    """
    tables = [part.handles for part in (service.data, service.executables, executions_of(service))]
    first = 0
    if after:
        issuers = [number for number, table in enumerate(tables) if table.has_issued(after)]
        if not issuers:
            raise NotFoundError(
                "after must be 0 or the handle of a value, executable or execution of this "
                f"session, got {after}, which it was never given"
            )
        first = issuers[0]
    for number, table in enumerate(tables[first:]):
        for handle in table.handles_after(0 if number else after):
            try:
                description = describe(service, handle)
            except (InvalidArgumentError, NotFoundError):
                continue  # It was freed meanwhile.
            yield handle, description


def _execution(execution: LaunchedExecution) -> ExecutionDescription:
    steps = []
    for step, outputs in zip(execution.run.steps, execution.outputs, strict=True):
        steps.append(LaunchedStep(step.result, outputs, step.output.shapes(step.result)))
    return ExecutionDescription(execution.name, steps, execution.is_done)

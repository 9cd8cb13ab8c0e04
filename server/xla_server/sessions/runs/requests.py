"""Requests to run programs, and their results."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from xla_contract.types.devices.sharding import Sharding
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.backends.platform import Profile
from xla_server.sessions.feeds.device_table import DeviceHandle
from xla_server.sessions.programs.compile_request import CompileRequest
from xla_server.sessions.programs.device_assignment import DeviceAssignment
from xla_server.sessions.values.donation_check import Path


@dataclasses.dataclass(frozen=True, slots=True)
class GraphProgram:
    """One program of ExecuteGraphParallel with the handles of its arguments."""

    program: Callable[[], CompileRequest]
    """Decodes the program; raises InvalidArgumentError for a malformed one."""
    arguments: Sequence[int | None]
    devices: Sequence[DeviceHandle]


class ExecutionResult(NamedTuple):
    """The handle of a result and what it cost."""

    output: int
    profile: Profile


class WholeArgument(NamedTuple):
    """A value for all participants, or to be cut into a shard for each.

    Without `sharding` it is cut as the program says, else every participant has all of it.
    """

    handle: int
    sharding: Sharding | None


class ShardsArgument(NamedTuple):
    """A value for each participant, by flattened id."""

    handles: Sequence[int]


class ShardedOutput(NamedTuple):
    """The requested use of all participants' results: kept one by one, or joined with `join`.

    They are joined by `sharding`, else by the program's sharding, else the result of participant 0
    is taken. If `flatten`, the elements of tuples get handles of their own.
    """

    join: bool
    sharding: Sharding | None
    flatten: bool


class ShardedRequest(NamedTuple):
    """An execution on all devices of an executable's grid."""

    executable: int | None
    assignment: DeviceAssignment | None
    """The devices, if they are not those that it was compiled for."""
    arguments: Sequence[WholeArgument | ShardsArgument | None]
    """One for each parameter; None for one without a source."""
    output: ShardedOutput


class ShardedResult(NamedTuple):
    """The handles of the results, participant by participant, and the longest profile.

    `shape` is that of each result.
    """

    outputs: Sequence[Sequence[int]]
    profile: Profile
    shape: Shape


class HandleArgument(NamedTuple):
    """A value of the session."""

    handle: int
    donate: bool


class ResultArgument(NamedTuple):
    """The result of an earlier step, or the part of it at `path`."""

    step: int
    path: Path
    donate: bool


class InlineArgument(NamedTuple):
    """A value sent along, of `byte_size` bytes.

    `read(max_bytes=...)` decodes it, and raises InvalidArgumentError if it is malformed.
    """

    byte_size: int
    read: Callable[..., Literal]


Argument: TypeAlias = HandleArgument | ResultArgument | InlineArgument | None
"""An argument of a step; None for one without a source."""


class PartRequest(NamedTuple):
    """The requested use of the part of a result at `path`; see OutputRequest."""

    path: Path
    keep: bool
    fetch_bytes: int
    fetch_as: Shape | None


class OutputRequest(NamedTuple):
    """The requested use of a result: keep it, and send it back if it has at most `fetch_bytes`.

    `fetch_as` is the shape, with layout, in which it is sent back; None for row-major. If
    `flatten`, the elements of a kept tuple get handles instead of the tuple.
    """

    keep: bool
    fetch_bytes: int
    fetch_as: Shape | None
    flatten: bool
    parts: Sequence[PartRequest]


class RunStep(NamedTuple):
    """One execution of a run."""

    executable: int | None
    arguments: Sequence[Argument]
    output: OutputRequest


class RunRequest(NamedTuple):
    """Executions one after the other, on one device."""

    steps: Sequence[RunStep]
    device: DeviceHandle | None

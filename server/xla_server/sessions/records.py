"""What goes in and out of the service beside the contract's own types."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.stubs import hlo_pb2, xla_pb2
from xla_contract.types.shape import Shape
from xla_server.backends.backend import Profile
from xla_server.sessions.caller_shares import EVERYTHING, CallerShares
from xla_server.sessions.devices import DeviceHandle


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What one server keeps at most, for all sessions together."""

    max_device_bytes: int
    max_message_bytes: int = 2**31 - 1
    max_executables: int = 1024
    """Programs whose code is kept; that of others is compiled again when they are called."""
    max_executable_bytes: int = 2**32
    """Bytes of their constants and code."""
    max_program_bytes: int = 2**30
    """Bytes of the modules of all programs that handles name."""
    max_idle_executables: int = 32
    max_idle_executable_bytes: int = 2**28
    """Of constants and code."""
    max_answer_bytes: int = 2**32
    """Of answers that clients have not read yet."""
    max_sessions: int = 4096
    max_executions: int = 1024
    """At the same time, of all sessions; one that has none may begin one even so."""
    max_launches: int = 16_384
    """Executions that were launched and have not ended, of all sessions."""
    max_compile_seconds: float = 4 * 3600.0
    """Seconds of compiling within an hour, of all sessions: an hour for each thread."""
    shares: CallerShares = EVERYTHING
    """The largest shares of all of these for one identity and one connection."""
    execution_wait_seconds: float = 60.0
    """How long an execution may wait for memory."""
    shared_memory_bytes: int = 0
    """Memory shared with clients on the same host; 0 for none."""
    session_shared_memory_bytes: int = 2**30
    upload_grace_seconds: float = 60.0
    """How long an upload that broke off waits for its client."""
    upload_silence_seconds: float = 60.0
    """How long the stream of an upload may send nothing."""
    spared_device_bytes: int = 0
    """Bytes of `max_device_bytes` that uploads in progress leave to others."""


@dataclasses.dataclass(frozen=True, slots=True)
class GraphRequest:
    """One program of ExecuteGraphParallel with the handles of its arguments."""

    program: hlo_pb2.HloModuleProto | None
    arguments: Sequence[int | None]
    options: xla_pb2.ExecutionOptions
    devices: Sequence[DeviceHandle]


class Executed(NamedTuple):
    """The handle of a result and what it cost."""

    output: int
    profile: Profile


def present(handle: int | None) -> int:
    """A data handle of a request; InvalidArgumentError when the request left it out."""
    if handle is None:
        raise InvalidArgumentError("the request must hold a data handle, got none")
    return handle


def located(part: str, error: XlaError) -> XlaError:
    """The error with the part of the request it is about, such as `argument 3`, in front."""
    return type(error)(
        f"{part}: {error.message}",
        op=error.op,
        instruction=error.instruction,
        hint=error.hint,
        incident=error.incident,
    )


@contextlib.contextmanager
def part_of_request(part: str) -> Iterator[None]:
    """Raise the errors of the block `located` in a part of the request."""
    try:
        yield
    except XlaError as error:
        raise located(part, error) from error.__cause__


def checked_layout(wanted: Shape | None, kept: Shape) -> Shape:
    """The shape in which a value leaves: the wanted one, or else as it is kept.

    Raises InvalidArgumentError for a wanted shape without a layout, or that does not fit the value.
    """
    if wanted is None:
        return kept
    if not wanted.has_layout:
        raise InvalidArgumentError(f"shape_with_layout must say its layout, got {wanted} without")
    if not wanted.compatible(kept):
        raise InvalidArgumentError(
            f"shape_with_layout must be compatible with the value, got {wanted} for {kept}"
        )
    return wanted

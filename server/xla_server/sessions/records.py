"""What goes in and out of the service beside the contract's own types."""

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.stubs import hlo_pb2, xla_pb2
from xla_server.backends.backend import Profile
from xla_server.sessions.devices import DeviceHandle


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What one server keeps at most."""

    max_device_bytes: int
    max_message_bytes: int = 2**31 - 1
    max_executables: int = 1024
    max_idle_executables: int = 32
    max_handles: int = 1_000_000
    feed_items: int = 128
    feed_bytes: int = 256 * 2**20


@dataclasses.dataclass(frozen=True, slots=True)
class GraphRequest:
    """One program of ExecuteGraphParallel with the handles of its arguments."""

    program: hlo_pb2.HloModuleProto | None
    arguments: Sequence[int | None]
    options: xla_pb2.ExecutionOptions
    devices: Sequence[DeviceHandle]


@dataclasses.dataclass(frozen=True, slots=True)
class Executed:
    """The handle of a result and what it cost."""

    output: int
    profile: Profile


def present(handle: int | None) -> int:
    """A data handle of a request; InvalidArgumentError when the request left it out."""
    if handle is None:
        raise InvalidArgumentError("the request must hold a data handle, got none")
    return handle


@contextlib.contextmanager
def part_of_request(part: str) -> Iterator[None]:
    """Put the part of the request an error is about, such as `argument 3`, before its message."""
    try:
        yield
    except XlaError as error:
        raise type(error)(
            f"{part}: {error.message}",
            op=error.op,
            instruction=error.instruction,
            hint=error.hint,
            incident=error.incident,
        ) from error.__cause__

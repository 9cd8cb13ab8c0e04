"""Participants of a grid that run in other processes, on other machines."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

from xla_contract.types.devices.device_grid import DeviceGrid
from xla_server.backends.platform import Buffer, Device, Execution
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.channel_protocol import Channels
from xla_server.execution.collectives_protocol import Collectives
from xla_server.execution.feed_protocol import Feeds
from xla_server.sessions.programs.compile_request import WireProgram


@dataclasses.dataclass(frozen=True, slots=True)
class HostParticipant:
    """A participant of a grid, ready to run on a device. `name` says which one, in errors.

    `run` runs it in this process. Elsewhere it is `program`, with code of `code_bytes` bytes, on
    `arguments`, with the feeds and channels of this process; `ended` is called when it has ended.
    """

    name: str
    device: Device
    run: Callable[[Collectives, Cancellation], Execution]
    program: WireProgram
    code_bytes: int
    arguments: Sequence[Buffer]
    feeds: Feeds
    channels: Channels
    ended: Callable[[], None]


class Hosts(Protocol):
    """The processes that a server's devices are in."""

    def has(self, device: Device) -> bool:
        """Return whether a device is in this process."""

    def run(
        self,
        participants: Sequence[HostParticipant],
        grid: DeviceGrid,
        cancellation: Cancellation,
        *,
        timeout_seconds: float,
        is_one_program: bool,
    ) -> list[Execution]:
        """The results of participants some of which run elsewhere; as `run_on_grid`.

        Raises UnavailableError, with the rank, if a process has ended or does not answer.
        """

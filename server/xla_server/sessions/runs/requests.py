"""Requests to run programs, and their results."""

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from xla_contract.stubs import hlo_pb2, xla_pb2
from xla_server.backends.backend import Profile
from xla_server.sessions.feeds.device_table import DeviceHandle


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

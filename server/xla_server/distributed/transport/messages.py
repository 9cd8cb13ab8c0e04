"""Messages between rank 0 and the other ranks, which all run the same version of this project."""

import dataclasses
from typing import Any, TypeAlias

from xla_contract.errors import XlaError
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.literal import Literal
from xla_server.backends.platform import Device, Profile
from xla_server.distributed.transport.shared_regions import RegionPart
from xla_server.ops.evaluation import Array, GroupCollective, Value
from xla_server.sessions.programs.compile_request import WireProgram

RendezvousKey: TypeAlias = tuple[object, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """Compile a program and keep its code; the answer is Loaded.

    `module` has the serialized module of the program.
    """

    program: WireProgram
    module: Array


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """The program with this key is ready, or `error` says why not."""

    key: bytes
    error: XlaError | None


@dataclasses.dataclass(frozen=True, slots=True)
class Unload:
    """Forget the code of a program."""

    key: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A participant for the receiver to run: its number, and the key of its program."""

    number: int
    name: str
    key: bytes
    device: Device
    arguments: tuple[Literal, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of an execution, equal on all ranks. `ranks` has the rank of each participant.

    With a `part`, ranks of one machine meet in native code. If the run `is_fast`, MPI does the
    reductions that it can.
    """

    run: int
    ranks: tuple[int, ...]
    grid: DeviceGrid
    timeout_seconds: float
    part: RegionPart | None
    is_one_program: bool
    is_fast: bool

    def key(self, collective: GroupCollective) -> RendezvousKey:
        """Return the key of a collective for its members: by its instruction, or its channel."""
        if self.is_one_program:
            return collective.instruction, collective.members
        return str(collective.opcode), collective.channel_id, collective.members


@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """Run participants of an execution. All runs before `oldest` have ended on all ranks."""

    options: RunOptions
    oldest: int
    jobs: tuple[Job, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Visit:
    """The members `arrived`, all on one rank, have come to a collective with operands of a form.

    `number` counts the visits of the collective in a run. `turns` is the number of exchanges by MPI
    that the visit needs; then `arrived` has all members of the rank. A visit of no turns gets no
    answer.
    """

    collective: GroupCollective
    number: int
    form: str
    turns: int
    arrived: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Arrive:
    """The sender's visits since its last report: the last one of each collective.

    For each of their members, they are all visits that it has made up to some time.
    """

    run: int
    visits: tuple[Visit, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Go:
    """All members of a collective have come; its exchanges among `ranks` begin with turn `turn`."""

    run: int
    key: RendezvousKey
    ranks: tuple[int, ...]
    turn: int


@dataclasses.dataclass(frozen=True, slots=True)
class Late:
    """A visit of a collective has timed out. The answer is Failed if members are missing."""

    run: int
    key: RendezvousKey
    visit: int


@dataclasses.dataclass(frozen=True, slots=True)
class Post:
    """A value that one participant sends to another one inside a program."""

    run: int
    collective: GroupCollective
    value: Value


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """A participant has ended."""

    run: int
    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    """An execution has failed: all its participants must end."""

    run: int
    error: XlaError


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """All participants on the sender have ended; `results` has theirs if none has failed."""

    run: int
    results: tuple[tuple[int, Literal, Profile], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """A call of Feeds or Channels by a participant, one at a time: rank 0 has the queues.

    `method` is the name of the method; its arguments are those before and those after the
    cancellation.
    """

    run: int
    number: int
    method: str
    before: tuple[Any, ...]
    after: tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a participant's Ask: a value, None, or an error."""

    run: int
    number: int
    answer: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Broken:
    """The sender cannot exchange anything with other ranks any more."""

    error: XlaError


@dataclasses.dataclass(frozen=True, slots=True)
class Alive:
    """Sign of life: the sender is running."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stop:
    """The receiver must end: together with all ranks, or by itself."""

    ends_together: bool

"""Records that rank 0 and the other ranks exchange. All ranks are this project, of one version."""

import dataclasses
from typing import Any, TypeAlias

from xla_contract.errors import XlaError
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.literal import Literal
from xla_server.backends.platform import Device, Profile
from xla_server.distributed.transport.shared_regions import RegionPart
from xla_server.ops.evaluation import Array, Meeting, Value
from xla_server.sessions.programs.compile_request import WireProgram

MeetingKey: TypeAlias = tuple[object, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """Compile a program and keep its code; the answer is Loaded. `module` is its data."""

    program: WireProgram
    module: Array


@dataclasses.dataclass(frozen=True, slots=True)
class Loaded:
    """The program of this key is ready, or was refused."""

    key: bytes
    error: XlaError | None


@dataclasses.dataclass(frozen=True, slots=True)
class Unload:
    """Forget the code of a program."""

    key: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A participant that the receiver runs, by number, with the key of its program."""

    number: int
    name: str
    key: bytes
    device: Device
    arguments: tuple[Literal, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class RunOptions:
    """An execution as all ranks know it. `ranks` has the rank of each participant, by number.

    With a `part`, ranks of one machine meet in native code. If the run `is_fast`, MPI reduces
    where it can.
    """

    run: int
    ranks: tuple[int, ...]
    grid: DeviceGrid
    timeout_seconds: float
    part: RegionPart | None
    is_one_program: bool
    is_fast: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Start:
    """Run participants of an execution. Runs before `oldest` have ended on all ranks."""

    options: RunOptions
    oldest: int
    jobs: tuple[Job, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Visit:
    """Members of a meeting on a rank, `come`, have come to it, with operands of a form.

    `number` counts the visits of the meeting in a run. It takes so many `turns` of the ranks'
    traffic, to which all its members on a rank come together; one that takes none has no answer.
    """

    meeting: Meeting
    number: int
    form: str
    turns: int
    come: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Arrive:
    """Visits of the sender since those that it told last: of each meeting the last.

    For each member in it they are all that this one has done, up to some time.
    """

    run: int
    visits: tuple[Visit, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Go:
    """All members of a meeting have come; it has the turns of these ranks from `turn` on."""

    run: int
    key: MeetingKey
    ranks: tuple[int, ...]
    turn: int


@dataclasses.dataclass(frozen=True, slots=True)
class Late:
    """A visit of a meeting has waited for its time: the answer is Failed, if it is not full."""

    run: int
    key: MeetingKey
    visit: int


@dataclasses.dataclass(frozen=True, slots=True)
class Post:
    """A value that one participant sends another one inside a program."""

    run: int
    meeting: Meeting
    value: Value


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """A participant has ended."""

    run: int
    number: int


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    """An execution has failed: all its participants are to end."""

    run: int
    error: XlaError


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """All participants on the sender have ended, with these results if none has failed."""

    run: int
    results: tuple[tuple[int, Literal, Profile], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """A participant uses feeds or channels, which rank 0 has. A participant asks one at a time.

    `method` is one of Feeds or Channels, with its arguments before and after the cancellation.
    """

    run: int
    number: int
    method: str
    before: tuple[Any, ...]
    after: tuple[Any, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a participant's question: a value, None, or an error."""

    run: int
    number: int
    answer: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Broken:
    """The sender can exchange nothing with other ranks any more."""

    error: XlaError


@dataclasses.dataclass(frozen=True, slots=True)
class Alive:
    """The sender runs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Stop:
    """The receiver is to end, with all ranks together or by itself."""

    ends_together: bool

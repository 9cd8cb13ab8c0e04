"""Interfaces by which a participant's program meets the other participants of an execution."""

import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.devices.device_grid import ALONE, DeviceGrid
from xla_contract.types.devices.replica_groups import braced
from xla_server.ir.analysis.participants import Placement
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Communicator, GroupCollective, Value

KEPT_BYTES = 1 << 26
"""Bytes of the idle native-collective memory that all programs together keep for their next
executions."""

ALWAYS_KEPT_BYTES = 1 << 16
"""Bytes of idle memory that a program may always keep, whatever other programs keep."""


MAX_MEMBERS = 8
"""Members of the largest group that meets in native code."""

MAX_COPIED_BYTES = 1 << 20
"""Largest operands, in bytes, that a member copies for the others in native code: with larger ones
the host is faster, as its members share the work."""


class NativeCollective(NamedTuple):
    """A collective at which participants may meet in native code; `placements` has one for each.

    Each member's operands take `area_bytes`, a multiple of 64. If it `is_referenced`, members that
    one thread runs in turns read each other's operands directly.
    """

    instruction: HloInstruction
    placements: Sequence[Placement]
    area_bytes: int
    is_referenced: bool = False

    @property
    def copied_bytes(self) -> int:
        """The bytes of an area if members copy their operands; 0 if they do not."""
        return self.area_bytes if self.area_bytes <= MAX_COPIED_BYTES else 0


class CollectivePlan:
    """The native collectives of a program, by number, and idle memory for them.

    With `round_robin`, one thread runs the participants round-robin if it can, so collectives that
    are referenced need no areas. An execution in threads leaves collectives without areas to the
    host; those of large operands never have any.
    """

    __slots__ = ("__weakref__", "_idle_bytes", "areas", "collectives", "idle", "round_robin")

    def __init__(
        self, collectives: Sequence[NativeCollective], *, round_robin: bool = False
    ) -> None:
        self.collectives = tuple(collectives)
        self.round_robin = round_robin
        self.areas = [
            0 if round_robin and each.is_referenced else each.copied_bytes for each in collectives
        ]
        """The bytes of an area for each collective, in memory of this process."""
        self.idle: list[Any] = []
        self._idle_bytes = 0

    @property
    def byte_size(self) -> int:
        """Bytes of a participant's areas: two for each collective, used by alternate visits."""
        return 2 * sum(self.areas)

    def keep(self, memory: object, size: int) -> None:
        """Keep an execution's memory for the next one; other programs may lose theirs for it."""
        if self.idle or size > KEPT_BYTES:
            return
        self._idle_bytes = size
        self.idle.append(memory)
        if size <= ALWAYS_KEPT_BYTES:
            return
        with _KEEPING:
            _KEEPERS.add(self)
            if sum(each._idle_bytes for each in _KEEPERS if each.idle) > KEPT_BYTES:
                for each in _KEEPERS - {self}:
                    each.idle.clear()


_KEEPERS: "weakref.WeakSet[CollectivePlan]" = weakref.WeakSet()
_KEEPING = threading.Lock()
"""Guards `_KEEPERS`, the plans whose idle memory counts towards KEPT_BYTES."""


class Collectives(Communicator, Protocol):
    """The participants of an execution, with their native collectives."""

    def records(self, plan: CollectivePlan) -> int:
        """Return the address of the records of this participant's native collectives.

        The records live as long as the participant runs. The result is 0 if it meets by `exchange`
        alone. The layout is that of runtime/collective_records.py.
        """

    def wait(self, number: int) -> None:
        """Wait until all members have arrived at a native collective, by number; as `exchange`."""


class GridParticipants(Protocol):
    """All participants of an execution, if one thread runs them in turns."""

    @property
    def grid(self) -> DeviceGrid:
        """Numbers of replicas and partitions."""

    def all_records(self, plan: CollectivePlan) -> list[int]:
        """The addresses of all participants' records; none unless all collectives are native."""

    def stop(self, waiting: Mapping[int, int]) -> None:
        """Fail, as these participants wait forever.

        `waiting` maps each of them to the number of the native collective that it waits at.
        """


class NoCollectives:
    """The view of the only participant of an execution.

    Its numbers may be other than 0, to evaluate what one of several participants would do.
    """

    def __init__(self, replica_id: int = 0, partition_id: int = 0) -> None:
        self.replica_id = replica_id
        self.partition_id = partition_id

    @property
    def grid(self) -> DeviceGrid:
        """One replica of one partition."""
        return ALONE

    def exchange(self, collective: GroupCollective, *_: object, **__: object) -> Any:
        """Raise InvalidArgumentError: the program runs on one device."""
        raise _alone(collective)

    def records(self, plan: CollectivePlan) -> int:
        """Return 0: there is no other to meet."""
        return 0

    def wait(self, number: int) -> None:
        """Do nothing, as it has no records."""

    def post(self, collective: GroupCollective, value: Value) -> None:
        """Raise InvalidArgumentError."""
        raise _alone(collective)

    def receive(self, collective: GroupCollective) -> Value:
        """Raise InvalidArgumentError."""
        raise _alone(collective)


def _alone(collective: GroupCollective) -> InvalidArgumentError:
    return InvalidArgumentError(
        "a program on one replica can only exchange data with itself, got a group "
        f"{braced(collective.members)}",
        hint="run the program on as many replicas and partitions as it is written for",
    )


ALONE_RUN = NoCollectives()
"""The view of a program that runs on one device."""

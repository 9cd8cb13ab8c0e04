"""Running one program, or several, as the participants of a device grid."""

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from xla_contract.errors import ResourceExhaustedError
from xla_contract.types.device_grid import DeviceGrid
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.collectives_protocol import ALONE_RUN, Collectives, Group, MeetingPlan
from xla_server.ops.evaluation import Crossing, GivenT, Meeting, SharedT, Value
from xla_server.sessions.limits.blocking import releasing_slot
from xla_server.sessions.runs.grids.participant_threads import start
from xla_server.sessions.runs.grids.rendezvous import Rendezvous

T = TypeVar("T")


class GridParticipant:
    """The participants of an execution as one of them sees them. Implements Collectives."""

    __slots__ = ("_meetings", "_number", "grid", "partition_id", "replica_id")

    def __init__(self, meetings: Rendezvous, number: int) -> None:
        self._meetings = meetings
        self._number = number
        self.grid = meetings.grid
        self.replica_id, self.partition_id = self.grid.position(number)

    def exchange(
        self,
        meeting: Meeting,
        given: GivenT,
        share: Callable[[Sequence[GivenT]], SharedT],
        work: Callable[[SharedT, int], None] | None = None,
        crossing: Callable[[], Crossing] | None = None,
    ) -> SharedT:
        """Meet the others; raises as Collectives.exchange says."""
        return self._meetings.exchange(self._number, meeting, given, share, work, crossing)

    def records(self, plan: MeetingPlan) -> int:
        """The address of the records of native meetings, as Collectives.records says."""
        return self._meetings.records(self._number, plan)

    def wait(self, number: int) -> None:
        """Wait for the others at a native meeting; raises as Collectives.wait says."""
        self._meetings.wait(self._number, number)

    def post(self, meeting: Meeting, value: Value) -> None:
        """Leave a value for another; raises as Collectives.post says."""
        self._meetings.post(meeting, value)

    def take(self, meeting: Meeting) -> Value:
        """Wait for a value of another; raises as Collectives.exchange says."""
        return self._meetings.take(self._number, meeting)


def run_on_grid(
    jobs: Sequence[Callable[[Collectives, Cancellation], T]],
    grid: DeviceGrid,
    cancellation: Cancellation,
    *,
    timeout_seconds: float,
    is_one_program: bool = True,
) -> list[T]:
    """The results of the jobs, one for each participant in the order of flattened ids.

    Each has a thread while it runs, the first that of the caller, so that all can wait for each
    other. The first to fail ends the others, and its error is raised when all have ended. Waiting
    for a participant fails at once where that has ended, or when all wait, and else after
    `timeout_seconds`. `cancellation` cancels all. Without `is_one_program` the jobs run programs of
    their own, whose collectives meet by channel.
    """
    if grid.size == 1:
        return [jobs[0](ALONE_RUN, cancellation)]
    meetings = Rendezvous(grid, timeout_seconds, is_one_program=is_one_program)
    done = run_participants(dict(enumerate(jobs)), meetings, cancellation)
    return [done[number] for number in range(grid.size)]


def run_in_turns(
    run: Callable[[Group, Cancellation], T], grid: DeviceGrid, cancellation: Cancellation
) -> T:
    """Run all participants of a grid together, in the caller's thread; what `run` gives.

    It gets a cancellation of its own. Raises what it does, and what `cancellation` was given.
    """
    group = Rendezvous(grid, 0.0)
    with cancellation.followed() as own:
        made = run(group, own)
    group.close()
    return made


def run_participants(
    jobs: Mapping[int, Callable[[Collectives, Cancellation], T]],
    meetings: Rendezvous,
    cancellation: Cancellation,
) -> dict[int, T]:
    """The results of the participants of a grid that run on this host, by number.

    Otherwise as `run_on_grid`.
    """
    results: dict[int, T] = {}
    first, *others = jobs
    left = _Latch(len(others))

    def run(number: int) -> None:
        try:
            with group.followed() as own:
                results[number] = jobs[number](GridParticipant(meetings, number), own)
        except BaseException as error:  # The others must not go on, whatever it was.
            meetings.fail(error)
            group.cancel()
        meetings.end(number)

    def run_beside(number: int) -> None:
        try:
            run(number)
        finally:
            left.count_down()

    def stop() -> None:
        error = group.error
        if error is not None:
            meetings.fail(error)

    with cancellation.followed() as group:
        forget = group.add_callback(stop)
        for number in others:
            try:
                start(functools.partial(run_beside, number))
            except RuntimeError:
                # Those that have begun wait for this one, and use what the caller has reserved.
                meetings.fail(
                    ResourceExhaustedError(
                        f"each of {len(jobs)} participants must have a thread, got none for "
                        f"number {number}"
                    )
                )
                group.cancel()
                left.count_down()
        run(first)
        if not left.is_open:
            with releasing_slot():
                left.wait()
        forget()
    if meetings.failure is not None:
        raise meetings.failure
    meetings.close()
    return results


class _Latch:
    """Opens when it was counted down to zero."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._gate = threading.Lock()
        self._gate.acquire()

    @property
    def is_open(self) -> bool:
        """Return whether waiting ends at once."""
        return self._count == 0

    def count_down(self) -> None:
        """Count one less."""
        with self._lock:
            self._count -= 1
            if self._count == 0:
                self._gate.release()

    def wait(self) -> None:
        """Wait until it opens; for one thread."""
        self._gate.acquire()

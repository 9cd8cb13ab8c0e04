"""Running one program, or several, as the participants of a device grid."""

import functools
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from xla_contract.errors import ResourceExhaustedError
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.collectives_protocol import ALONE_RUN, Collectives, GridParticipants
from xla_server.sessions.limits.blocking import releasing_slot
from xla_server.sessions.runs.grids.participant_threads import start
from xla_server.sessions.runs.grids.rendezvous import Rendezvous

T = TypeVar("T")


class GridParticipant:
    """The participants of an execution, for the use of one of them. Implements Collectives."""

    def __init__(self, rendezvous: Rendezvous, number: int) -> None:
        self.grid = rendezvous.grid
        self.replica_id, self.partition_id = self.grid.position(number)
        self.exchange = functools.partial(rendezvous.exchange, number)
        self.records = functools.partial(rendezvous.records, number)
        self.wait = functools.partial(rendezvous.wait, number)
        self.post = rendezvous.post
        self.receive = functools.partial(rendezvous.receive, number)


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
    for a participant fails at once if that has ended, or if all wait, and otherwise after
    `timeout_seconds`. `cancellation` cancels all. Without `is_one_program` the jobs run programs of
    their own, whose collectives meet by channel.
    """
    if grid.size == 1:
        return [jobs[0](ALONE_RUN, cancellation)]
    rendezvous = Rendezvous(grid, timeout_seconds, is_one_program=is_one_program)
    done = run_participants(dict(enumerate(jobs)), rendezvous, cancellation)
    return [done[number] for number in range(grid.size)]


def run_round_robin(
    run: Callable[[GridParticipants, Cancellation], T], grid: DeviceGrid, cancellation: Cancellation
) -> T:
    """Run all participants of a grid by one call of `run`, in the caller's thread.

    `run` gets a cancellation that follows `cancellation`. Returns and raises as `run` does, and
    raises the error of `cancellation`.
    """
    group = Rendezvous(grid, 0.0)
    with cancellation.followed() as own:
        made = run(group, own)
    group.close()
    return made


def run_participants(
    jobs: Mapping[int, Callable[[Collectives, Cancellation], T]],
    rendezvous: Rendezvous,
    cancellation: Cancellation,
) -> dict[int, T]:
    """The results of the participants of a grid that run on this host, by number.

    Otherwise as `run_on_grid`.
    """
    results: dict[int, T] = {}
    first, *others = jobs
    # Counting is one step, so no lock: the last of the others opens the gate.
    ended = itertools.count(1)
    gate = threading.Lock()
    gate.acquire()

    def count_down() -> None:
        if next(ended) == len(others):
            gate.release()

    def run(number: int) -> None:
        try:
            with group.followed() as own:
                results[number] = jobs[number](GridParticipant(rendezvous, number), own)
        except BaseException as error:  # Any exception must stop the other participants.
            rendezvous.fail(error)
            group.cancel()
        rendezvous.end(number)

    def run_beside(number: int) -> None:
        try:
            run(number)
        finally:
            count_down()

    def stop() -> None:
        error = group.error
        if error is not None:
            rendezvous.fail(error)

    with cancellation.followed() as group:
        forget = group.add_callback(stop)
        for number in others:
            try:
                start(functools.partial(run_beside, number))
            except RuntimeError:
                # Participants that have begun wait for this one, and use memory that the caller has
                # reserved.
                rendezvous.fail(
                    ResourceExhaustedError(
                        f"each of {len(jobs)} participants must have a thread, got none for "
                        f"number {number}"
                    )
                )
                group.cancel()
                count_down()
        run(first)
        if others and not gate.acquire(blocking=False):
            with releasing_slot():
                gate.acquire()
        forget()
    if rendezvous.failure is not None:
        raise rendezvous.failure
    rendezvous.close()
    return results

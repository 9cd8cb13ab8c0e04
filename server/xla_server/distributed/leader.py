"""Rank 0: executions on devices of several ranks."""

import contextlib
import dataclasses
import functools
import itertools
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xla_contract.errors import UnavailableError, XlaError
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_server.backends.platform import Backend, Device, Execution
from xla_server.distributed.exchange import Exchange
from xla_server.distributed.remote_programs import RemotePrograms
from xla_server.distributed.remote_run import RemoteRun
from xla_server.distributed.transport import messages
from xla_server.distributed.transport.mailbox import Mailbox
from xla_server.distributed.transport.messages import RunOptions
from xla_server.distributed.transport.shared_regions import RegionParts
from xla_server.distributed.transport.world import World
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.error_context import copy_of
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.runs.grids.grid_execution import run_participants
from xla_server.sessions.runs.hosts import HostParticipant

_LOG = logging.getLogger(__name__)

_CLOSE_SECONDS = 2.0
"""Timeout of the messages that end the other ranks, in seconds."""


class Leader:
    """Runs participants on the devices of all ranks. Implements sessions.runs.hosts.Hosts.

    `devices` is the number of devices of each rank, so device d is in rank d // `devices`. When a
    rank ends or falls silent, all executions on several ranks, present and later ones, end with
    UNAVAILABLE; executions on rank 0 alone continue. If the leader `is_fast`, MPI does those
    reductions between ranks for which it has an operation.
    """

    def __init__(
        self,
        world: World,
        devices: int,
        backend: Backend,
        limits: Limits,
        *,
        max_bytes: int,
        is_fast: bool,
    ) -> None:
        self._world = world
        self._devices = devices
        self._backend = backend
        self._is_fast = is_fast
        self._lock = threading.Lock()
        self._runs: dict[int, RemoteRun] = {}
        self._numbers = itertools.count(1)
        self._parts = RegionParts()
        self._turn_counts: dict[tuple[int, ...], int] = {}
        self._failure: XlaError | None = None
        self._watchers: list[Callable[[], None]] = []
        self._exchange = Exchange(world, limits.collective_timeout_seconds, self._break)
        self._mailbox = Mailbox(
            world,
            range(1, world.size),
            self._deliver,
            self._lost,
            progress_parcels=self._exchange.parcels.poll,
            silence_seconds=limits.collective_timeout_seconds,
            max_bytes=max_bytes,
        )
        self._programs = RemotePrograms(
            self._mailbox.send,
            max_count=limits.max_executables,
            max_bytes=limits.max_executable_bytes + limits.max_program_bytes,
        )
        self._mailbox.start()

    def has(self, device: Device) -> bool:
        """Return whether a device is in this process."""
        return self._rank_of(device) == 0

    def run(
        self,
        participants: Sequence[HostParticipant],
        grid: DeviceGrid,
        cancellation: Cancellation,
        *,
        timeout_seconds: float,
        is_one_program: bool,
    ) -> list[Execution]:
        """Return the results of participants, in order; raises as Hosts.run."""
        ranks = [self._rank_of(participant.device) for participant in participants]
        wanted = {
            (rank, participant.program.key): (rank, participant.program, participant.code_bytes)
            for rank, participant in zip(ranks, participants, strict=True)
            if rank
        }
        self._require_whole()
        # Its number and part come when it opens.
        options = RunOptions(
            *(0, tuple(ranks), grid, timeout_seconds, None), is_one_program, self._is_fast
        )
        with (
            cancellation.followed() as own,
            self._programs.loaded(wanted.values(), own),
            self._opened(participants, own, options) as run,
        ):
            run.begin(self._oldest())
            forget = own.add_callback(functools.partial(_stop, run, own))
            done = self._run_here(run, participants, own)
            run.wait()
            forget()
        if isinstance(run.failure, XlaError):
            raise copy_of(run.failure)
        if run.failure is not None:
            raise run.failure
        for number, (literal, profile) in run.results.items():
            output = self._backend.to_device(literal, participants[number].device)
            done[number] = Execution(output, profile)
        return [done[number] for number in range(len(participants))]

    def watch(self, broken: Callable[[], None]) -> None:
        """Call `broken` when a rank is lost; at once if one has been lost already."""
        with self._lock:
            self._watchers.append(broken)
            is_late = self._failure is not None
        if is_late:
            broken()

    def close(self) -> None:
        """End the other ranks, and MPI with them."""
        is_healthy = self._failure is None
        for rank in range(1, self._world.size):
            self._mailbox.send(rank, messages.Stop(is_healthy))
        if self._mailbox.close(_CLOSE_SECONDS) and is_healthy:
            self._world.left()

    def _run_here(
        self, run: RemoteRun, participants: Sequence[HostParticipant], cancellation: Cancellation
    ) -> dict[int, Execution]:
        if not run.here:
            return {}
        jobs = {number: participants[number].run for number in run.here}
        try:
            return run_participants(jobs, run.collectives, cancellation)
        except BaseException as error:  # Any exception must end the other ranks.
            run.stop(error)
            return {}

    @contextlib.contextmanager
    def _opened(
        self, participants: Sequence[HostParticipant], own: Cancellation, options: RunOptions
    ) -> Iterator[RemoteRun]:
        number, part = (
            next(self._numbers),
            self._parts.acquire() if options.is_one_program else None,
        )
        options = dataclasses.replace(options, run=number, part=part)
        run = RemoteRun(
            options, participants, own, self._exchange, self._mailbox, self._reserve_turns
        )
        with self._lock:
            self._runs[number] = run
        try:
            self._require_whole()
            yield run
            self._parts.release(part)
        finally:
            with self._lock:
                del self._runs[number]
            self._exchange.parcels.end(number)

    def _oldest(self) -> int:
        with self._lock:
            oldest = min(self._runs)
        self._exchange.parcels.keep_from(oldest)
        return oldest

    def _reserve_turns(self, ranks: tuple[int, ...], count: int) -> int:
        with self._lock:
            first = self._turn_counts.get(ranks, 0)
            self._turn_counts[ranks] = first + count
        return first

    def _rank_of(self, device: Device) -> int:
        return device.ordinal // self._devices

    def _require_whole(self) -> None:
        if self._failure is not None:
            raise copy_of(self._failure)

    def _lost(self, rank: int, why: str) -> None:
        self._break(
            UnavailableError(
                f"all ranks must be there for a program on several, got rank {rank}, which {why}",
                hint="Start the server again; devices of rank 0 work without.",
            )
        )

    def _break(self, error: XlaError) -> None:
        with self._lock:
            if self._failure is not None:
                return
            self._failure = error
            runs, watchers = list(self._runs.values()), self._watchers
        _LOG.error("%s", error.message)
        self._exchange.fail(error)
        self._programs.fail(error)
        for run in runs:
            run.lose(error)
        for rank in range(1, self._world.size):
            self._mailbox.send(rank, messages.Broken(error))
        for broken in watchers:
            broken()

    def _deliver(self, rank: int, message: Any) -> None:
        match message:
            case messages.Loaded(key, error):
                self._programs.answered(rank, key, error)
            case messages.Broken(error):
                self._break(error)
            case _:
                run = self._runs.get(message.run)
                if run is not None:
                    run.handle(rank, message)


def _stop(run: RemoteRun, cancellation: Cancellation) -> None:
    error = cancellation.error
    if error is not None:
        run.stop(error)

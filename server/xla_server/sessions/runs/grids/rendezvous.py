"""Rendezvous of the participants of one execution.

A collective is open while members are missing. Its last member shares the values of all, and each
works on them. No member leaves in between, even after a failure: others read its arrays.
"""

import dataclasses
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from xla_contract.errors import (
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    XlaError,
)
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.devices.replica_groups import braced
from xla_server.execution.channel_protocol import WaitingValues
from xla_server.execution.collectives_protocol import CollectivePlan
from xla_server.ops.evaluation import Crossing, GivenT, GroupCollective, SharedT, Value
from xla_server.runtime.collective_records import NativeCollectives, Visit, local_collectives
from xla_server.sessions.error_context import copy_of
from xla_server.sessions.limits.blocking import releasing_slot

_Key = tuple[object, ...]


class Across(Protocol):
    """The participants of an execution on other hosts."""

    def gathered(
        self, collective: GroupCollective, given: Sequence[Any], crossing: Crossing
    ) -> list[Any]:
        """Return the values that all members gave; `given` has None for those on other hosts.

        Called by one thread, when all members of this host have arrived. Raises the execution's
        failure, and as Rendezvous.exchange.
        """

    def spread(self, collective: GroupCollective, shared: Any, crossing: Crossing) -> None:
        """Exchange the parts that members wrote of the shared values, when all here have."""

    def collectives(self, plan: CollectivePlan) -> NativeCollectives | None:
        """The native collectives in memory that the hosts share; None if they share none."""

    def wait(self, number: int, visit: Visit) -> None:
        """Wait until all members have arrived at a native collective.

        Called by each participant, `number`, for itself. Raises the execution's failure.
        """

    def post(self, collective: GroupCollective, value: Value) -> None:
        """Leave a value for the second member, which is on another host."""

    def ended(self, number: int) -> None:
        """Report that a participant of this host has ended."""

    def failed(self, error: BaseException) -> None:
        """Report that the execution has failed on this host. Called under a lock; must not wait."""


@dataclasses.dataclass(slots=True, eq=False)
class _Open:
    """A collective that is not over, with `here` members on this host."""

    collective: GroupCollective
    here: int
    visit: Visit | None = None
    given: list[Any] = dataclasses.field(init=False)
    arrived: set[int] = dataclasses.field(default_factory=set)
    working: int = dataclasses.field(init=False)
    is_full: bool = False
    shared: Any = None
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self.given = [None] * len(self.collective.members)
        self.working = self.here

    def missing(self) -> list[int]:
        """The members that have not arrived; some arrive in native code and never wait here."""
        if self.visit is not None:
            return self.visit.missing()
        return [number for number in self.collective.members if number not in self.arrived]


class _Participant:
    """A participant's thread, and the collective that it waits for."""

    __slots__ = ("bell", "has_ended", "waits_at")

    def __init__(self) -> None:
        self.bell = threading.Lock()
        self.bell.acquire()
        self.waits_at: _Open | None = None
        self.has_ended = False


class Rendezvous:
    """The collectives of one execution on a grid. Thread-safe.

    With `is_one_program` all participants run the same instructions, and meet by their names;
    otherwise by opcode and channel, in the order in which each arrives. Waiting for longer than
    `timeout_seconds` fails. Participants that are not in `here` run on other hosts, `across`.
    """

    def __init__(
        self,
        grid: DeviceGrid,
        timeout_seconds: float,
        *,
        is_one_program: bool = True,
        here: Collection[int] | None = None,
        across: Across | None = None,
    ) -> None:
        self.grid = grid
        self._timeout = min(timeout_seconds, threading.TIMEOUT_MAX)
        self._is_one_program = is_one_program
        self._here = frozenset(range(grid.size) if here is None else here)
        self._across = across
        self._lock = threading.Lock()
        self._open: dict[_Key, _Open] = {}
        self._participants = [_Participant() for _ in range(grid.size)]
        self._mail = WaitingValues[Value]()
        self._failure: BaseException | None = None
        self._native: NativeCollectives | None = None

    @property
    def failure(self) -> BaseException | None:
        """The first failure of the execution."""
        return self._failure

    def exchange(
        self,
        number: int,
        collective: GroupCollective,
        given: GivenT,
        share: Callable[[Sequence[GivenT]], SharedT],
        work: Callable[[SharedT, int], None] | None = None,
        crossing: Callable[[], Crossing] | None = None,
    ) -> SharedT:
        """Meet the others as participant `number`, as Collectives.exchange says."""
        crosses = None
        if crossing is not None and not self._here.issuperset(collective.members):
            crosses = crossing()
        index = collective.members.index(number)
        me = self._participants[number]
        with self._lock:
            self._check()
            key = self._key(collective)
            open_ = self._open.get(key)
            if open_ is None:
                here = sum(member in self._here for member in collective.members)
                open_ = self._open[key] = _Open(collective, here)
            open_.given[index] = given
            open_.arrived.add(number)
            is_last = len(open_.arrived) == open_.here
            if is_last:
                del self._open[key]
                open_.is_full = True
            else:
                me.waits_at = open_
                self._find_missing(open_)
        if is_last:
            self._share(open_, share, crosses)
        else:
            self._wait(me, open_)
        if open_.error is not None:
            raise open_.error if is_last else _copy(open_.error)
        if work is not None:
            self._work(me, open_, work, index, crosses)
        shared: SharedT = open_.shared
        return shared

    def records(self, number: int, plan: CollectivePlan, *, round_robin: bool = False) -> int:
        """The address of the records of a participant, as Collectives.records says."""
        if not self._is_one_program:
            return 0
        with self._lock:
            if self._native is None:
                across = self._across
                if across is not None:
                    self._native = across.collectives(plan)
                else:
                    self._native = _native_collectives_of(plan, self.grid, round_robin=round_robin)
            native = self._native
            return native.address(number) if native is not None and native.plan is plan else 0

    def all_records(self, plan: CollectivePlan) -> list[int]:
        """The addresses of the records of all, as GridParticipants.all_records says."""
        addresses = [self.records(n, plan, round_robin=True) for n in range(self.grid.size)]
        is_complete = self._native is not None and self._native.are_complete
        return addresses if is_complete else []

    def stop(self, waiting: Mapping[int, int]) -> None:
        """Fail, as GridParticipants.stop says."""
        assert self._native is not None
        visits = {n: self._native.visit(n, collective) for n, collective in waiting.items()}
        with self._lock:
            for number, participant in enumerate(self._participants):
                participant.has_ended = number not in visits
            for number, visit in visits.items():
                open_ = _Open(visit.collective, len(visit.collective.members), visit)
                self._participants[number].waits_at = open_
            for number in visits:
                waits_at = self._participants[number].waits_at
                if self._failure is None and waits_at is not None:
                    self._find_missing(waits_at)
            self._check()

    def wait(self, number: int, collective: int) -> None:
        """Wait at a native collective as Collectives.wait says; wake the others if it is full."""
        assert self._native is not None
        visit = self._native.visit(number, collective)
        if self._across is not None:
            self._across.wait(number, visit)
            return
        me = self._participants[number]
        key = collective, visit.collective.members, visit.stamp
        with self._lock:
            self._check()
            open_ = self._open.get(key)
            if not visit.missing():
                visit.mark_awake(number)
                if open_ is not None:
                    del self._open[key]
                    for sleeper in open_.arrived:
                        visit.mark_awake(sleeper)
                    open_.is_full = True
                    self._wake(open_)
                return
            if open_ is None:
                open_ = self._open[key] = _Open(
                    visit.collective, len(visit.collective.members), visit
                )
            open_.arrived.add(number)
            me.waits_at = open_
            self._find_missing(open_)
        self._wait(me, open_)

    def close(self) -> None:
        """Release the memory of native collectives to the next execution, once all have ended."""
        native = self._native
        if native is None or self._across is not None or self._failure is not None:
            return
        native.plan.keep(native, self.grid.size * native.plan.byte_size)

    def post(self, collective: GroupCollective, value: Value) -> None:
        """Leave a value for the second member, as Collectives.post says."""
        if self._across is not None and collective.members[1] not in self._here:
            self._across.post(collective, value)
            return
        key = collective.channel_id, collective.members
        with self._lock:
            self._check()
            open_ = self._open.pop(key, None)
            if open_ is not None:
                open_.shared = value
                open_.is_full = True
                self._wake(open_)
                return
            size = value.nbytes if isinstance(value, np.ndarray) else 0
            self._mail.put(key, value, size, f"on channel {collective.channel_id}")

    def receive(self, number: int, collective: GroupCollective) -> Value:
        """Wait for a value of the first member, as Collectives.receive says."""
        key = collective.channel_id, collective.members
        me = self._participants[number]
        with self._lock:
            self._check()
            sent = self._mail.pop(key)
            if sent is not None:
                return sent
            open_ = self._open[key] = _Open(collective, 1)
            open_.arrived.add(number)
            me.waits_at = open_
            self._find_missing(open_)
        self._wait(me, open_)
        value: Value = open_.shared
        return value

    def fail(self, error: BaseException) -> None:
        """Fail all waiting participants with this error, unless one is set already."""
        with self._lock:
            self._fail(error)

    def end(self, number: int) -> None:
        """Record that a participant has ended: collectives that still expect it fail."""
        if self._across is not None and number in self._here:
            self._across.ended(number)
        with self._lock:
            self._participants[number].has_ended = True
            for open_ in list(self._open.values()):
                self._find_missing(open_)

    def _key(self, collective: GroupCollective) -> _Key:
        if self._is_one_program:
            return collective.instruction, collective.members
        return collective.opcode, collective.channel_id, collective.members

    def _check(self) -> None:
        if self._failure is not None:
            raise _copy(self._failure)

    def _share(
        self, open_: _Open, share: Callable[[Sequence[Any]], Any], crossing: Crossing | None
    ) -> None:
        try:
            if self._across is not None and crossing is not None:
                open_.given = self._across.gathered(open_.collective, open_.given, crossing)
            open_.shared = share(open_.given)
        except BaseException as error:  # The others wait, so any exception must end them.
            open_.error = error
        with self._lock:
            self._wake(open_)

    def _work(
        self,
        me: _Participant,
        open_: _Open,
        work: Callable[[Any, int], None],
        index: int,
        crossing: Crossing | None,
    ) -> None:
        try:
            work(open_.shared, index)
        finally:
            with self._lock:
                open_.working -= 1
                is_last = not open_.working
                if not is_last:
                    me.waits_at = open_
            if is_last:
                # Other hosts wait for this member, even if it failed.
                self._spread(open_, crossing)
                with self._lock:
                    self._wake(open_)
            else:
                # Without a timeout: the others are working, not waiting.
                me.bell.acquire()
        if open_.error is not None:
            raise _copy(open_.error)

    def _spread(self, open_: _Open, crossing: Crossing | None) -> None:
        if self._across is None or crossing is None or crossing.writes is None:
            return
        try:
            self._across.spread(open_.collective, open_.shared, crossing)
        except BaseException as error:  # The others wait, so any exception must end them.
            open_.error = error

    def _wait(self, me: _Participant, open_: _Open) -> None:
        """Wait until all members have arrived and their values are shared."""
        # A waiting participant must not take time slices from those that it waits for.
        with releasing_slot():
            if not me.bell.acquire(timeout=self._timeout):
                with self._lock:
                    if me.waits_at is not None and not open_.is_full and open_.missing():
                        self._fail(late(open_.collective, open_.missing(), self._timeout))
                me.bell.acquire()
        if not open_.is_full:
            with self._lock:
                self._check()

    def _wake(self, open_: _Open) -> None:
        """Wake the participants that wait at a collective. Under the lock."""
        for number in open_.collective.members:
            participant = self._participants[number]
            if participant.waits_at is open_:
                participant.waits_at = None
                participant.bell.release()

    def _fail(self, error: BaseException) -> None:
        """Fail, and wake the participants whose collective is not full. Under the lock."""
        if self._failure is None:
            self._failure = error
            if self._across is not None:
                self._across.failed(error)
        for open_ in self._open.values():
            self._wake(open_)
        self._open.clear()

    def _find_missing(self, open_: _Open) -> None:
        """Fail if a member has ended without arriving. Under the lock."""
        missing = open_.missing()
        if not missing:
            # The last member is about to arrive.
            return
        ended = [n for n in missing if self._participants[n].has_ended]
        if ended:
            got = f"{braced(ended)} ended without it"
        elif all(part.has_ended or part.waits_at is not None for part in self._participants):
            others = (
                f"{n} at {waits.collective.opcode} %{waits.collective.instruction}"
                for n in missing[:8]
                if (waits := self._participants[n].waits_at) is not None
            )
            got = f"all participants waiting, {', '.join(others)}"
        else:
            return
        self._fail(incomplete(open_.collective, got))


def _native_collectives_of(
    plan: CollectivePlan, grid: DeviceGrid, *, round_robin: bool
) -> NativeCollectives:
    """Native collectives, in memory of an earlier execution if some is free."""
    try:
        native: NativeCollectives | None = plan.idle.pop()
    except IndexError:
        native = None
    if native is None or (native.grid, native.round_robin) != (grid, round_robin):
        native = local_collectives(plan, grid, round_robin=round_robin)
    native.begin()
    return native


def incomplete(collective: GroupCollective, got: str) -> XlaError:
    """The error for a collective with a member that has ended without arriving."""
    return FailedPreconditionError(f"{_rule(collective)}, got {got}").at(
        collective.opcode, collective.instruction
    )


def late(collective: GroupCollective, missing: Sequence[int], seconds: float) -> XlaError:
    """The error for a collective whose members did not arrive in time."""
    return DeadlineExceededError(
        f"{_rule(collective)} within {seconds:g} s, got none of {braced(missing)}"
    ).at(collective.opcode, collective.instruction)


def _rule(collective: GroupCollective) -> str:
    return f"every participant of the group {braced(collective.members)} must arrive"


def _copy(error: BaseException) -> BaseException:
    """An error for another thread to raise; each raise writes a traceback."""
    if not isinstance(error, XlaError):
        return CancelledError("another participant failed")
    return copy_of(error)

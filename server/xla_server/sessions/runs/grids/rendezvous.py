"""Where the participants of one execution wait for each other.

A meeting is open while members are missing; then its last member shares what all gave, and each
works on it. No member leaves in between, whatever fails elsewhere: others read its arrays.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from xla_contract.errors import (
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    ResourceExhaustedError,
    XlaError,
)
from xla_contract.types.device_grid import DeviceGrid
from xla_contract.types.replica_groups import braced
from xla_server.execution.channel_protocol import MAX_ITEMS
from xla_server.ops.evaluation import GivenT, Meeting, SharedT, Value
from xla_server.sessions.limits.blocking import releasing_slot

_Key = tuple[object, ...]


class _Open:
    """A meeting that is not over."""

    __slots__ = ("arrived", "error", "given", "is_full", "meeting", "shared", "working")

    def __init__(self, meeting: Meeting) -> None:
        count = len(meeting.members)
        self.meeting = meeting
        self.given: list[Any] = [None] * count
        self.arrived: set[int] = set()
        self.working = count
        self.is_full = False
        self.shared: Any = None
        self.error: BaseException | None = None


class _Participant:
    """A thread of the execution, and what it waits for."""

    __slots__ = ("bell", "has_ended", "waits_at")

    def __init__(self) -> None:
        self.bell = threading.Lock()
        self.bell.acquire()
        self.waits_at: _Open | None = None
        self.has_ended = False


class Rendezvous:
    """The meetings of one execution on a grid. Thread-safe.

    With `is_one_program` all participants run the same instructions, and meet by their names;
    otherwise by opcode and channel, in the order in which each arrives. Waiting for longer than
    `timeout_seconds` fails.
    """

    def __init__(
        self, grid: DeviceGrid, timeout_seconds: float, *, is_one_program: bool = True
    ) -> None:
        self.grid = grid
        self._timeout = min(timeout_seconds, threading.TIMEOUT_MAX)
        self._is_one_program = is_one_program
        self._lock = threading.Lock()
        self._open: dict[_Key, _Open] = {}
        self._participants = [_Participant() for _ in range(grid.size)]
        self._mail: dict[_Key, deque[Value]] = {}
        self._posted = 0
        self._failure: BaseException | None = None

    @property
    def failure(self) -> BaseException | None:
        """The first failure of the execution."""
        return self._failure

    def exchange(
        self,
        number: int,
        meeting: Meeting,
        given: GivenT,
        share: Callable[[Sequence[GivenT]], SharedT],
        work: Callable[[SharedT, int], None] | None,
    ) -> SharedT:
        """Meet the others as participant `number`, as Collectives.exchange says."""
        place = meeting.members.index(number)
        me = self._participants[number]
        with self._lock:
            self._check()
            key = self._key(meeting)
            open_ = self._open.get(key)
            if open_ is None:
                open_ = self._open[key] = _Open(meeting)
            open_.given[place] = given
            open_.arrived.add(number)
            is_last = len(open_.arrived) == len(meeting.members)
            if is_last:
                del self._open[key]
                open_.is_full = True
            else:
                me.waits_at = open_
                self._find_missing(open_)
        if is_last:
            self._share(open_, share)
        else:
            self._wait(me, open_)
        if open_.error is not None:
            raise open_.error if is_last else _copy(open_.error)
        if work is not None:
            self._work(me, open_, work, place)
        shared: SharedT = open_.shared
        return shared

    def post(self, meeting: Meeting, value: Value) -> None:
        """Leave a value for the second member, as Collectives.post says."""
        key = meeting.channel_id, meeting.members
        with self._lock:
            self._check()
            open_ = self._open.pop(key, None)
            if open_ is not None:
                open_.shared = value
                open_.is_full = True
                self._wake(open_)
                return
            if self._posted >= MAX_ITEMS:
                raise ResourceExhaustedError(
                    f"{MAX_ITEMS} values may wait on the channels inside a program, got one more "
                    f"on channel {meeting.channel_id}"
                )
            self._mail.setdefault(key, deque()).append(value)
            self._posted += 1

    def take(self, number: int, meeting: Meeting) -> Value:
        """Wait for a value of the first member, as Collectives.take says."""
        key = meeting.channel_id, meeting.members
        me = self._participants[number]
        with self._lock:
            self._check()
            waiting = self._mail.get(key)
            if waiting:
                self._posted -= 1
                return waiting.popleft()
            open_ = self._open[key] = _Open(meeting)
            open_.arrived.add(number)
            me.waits_at = open_
            self._find_missing(open_)
        self._wait(me, open_)
        value: Value = open_.shared
        return value

    def fail(self, error: BaseException) -> None:
        """Let all who wait for others fail with this error, unless there was one before."""
        with self._lock:
            self._fail(error)

    def end(self, number: int) -> None:
        """Say that a participant has ended: meetings that still expect it fail."""
        with self._lock:
            self._participants[number].has_ended = True
            for open_ in list(self._open.values()):
                self._find_missing(open_)

    def _key(self, meeting: Meeting) -> _Key:
        if self._is_one_program:
            return meeting.instruction, meeting.members
        return meeting.opcode, meeting.channel_id, meeting.members

    def _check(self) -> None:
        if self._failure is not None:
            raise _copy(self._failure)

    def _share(self, open_: _Open, share: Callable[[Sequence[Any]], Any]) -> None:
        try:
            open_.shared = share(open_.given)
        except BaseException as error:  # The others wait, whatever it was.
            open_.error = error
        with self._lock:
            self._wake(open_)

    def _work(
        self, me: _Participant, open_: _Open, work: Callable[[Any, int], None], place: int
    ) -> None:
        try:
            work(open_.shared, place)
        finally:
            with self._lock:
                open_.working -= 1
                is_last = not open_.working
                if is_last:
                    self._wake(open_)
                else:
                    me.waits_at = open_
            if not is_last:
                # Without a limit of time: the others work now, and do not wait.
                me.bell.acquire()

    def _wait(self, me: _Participant, open_: _Open) -> None:
        """Wait until all have arrived and what they gave is shared."""
        # Otherwise participants that wait would take turns with those that they wait for.
        with releasing_slot():
            if not me.bell.acquire(timeout=self._timeout):
                with self._lock:
                    if me.waits_at is not None and not open_.is_full:
                        self._fail(self._late(open_))
                me.bell.acquire()
        if not open_.is_full:
            with self._lock:
                self._check()

    def _wake(self, open_: _Open) -> None:
        """Wake those who wait at a meeting. Under the lock."""
        for number in open_.meeting.members:
            participant = self._participants[number]
            if participant.waits_at is open_:
                participant.waits_at = None
                participant.bell.release()

    def _fail(self, error: BaseException) -> None:
        """Fail, and wake those whose meeting is not full. Under the lock."""
        if self._failure is None:
            self._failure = error
        for open_ in self._open.values():
            self._wake(open_)
        self._open.clear()

    def _find_missing(self, open_: _Open) -> None:
        """Fail if a member cannot come any more. Under the lock."""
        missing = [n for n in open_.meeting.members if n not in open_.arrived]
        ended = [n for n in missing if self._participants[n].has_ended]
        if ended:
            got = f"{braced(ended)} ended without it"
        elif all(part.has_ended or part.waits_at is not None for part in self._participants):
            others = (
                f"{n} at {waits.meeting.opcode} %{waits.meeting.instruction}"
                for n in missing[:8]
                if (waits := self._participants[n].waits_at) is not None
            )
            got = f"all participants waiting, {', '.join(others)}"
        else:
            return
        self._fail(
            FailedPreconditionError(f"{self._rule(open_)}, got {got}").at(
                open_.meeting.opcode, open_.meeting.instruction
            )
        )

    def _late(self, open_: _Open) -> XlaError:
        missing = [n for n in open_.meeting.members if n not in open_.arrived]
        return DeadlineExceededError(
            f"{self._rule(open_)} within {self._timeout:g} s, got none of {braced(missing)}"
        ).at(open_.meeting.opcode, open_.meeting.instruction)

    def _rule(self, open_: _Open) -> str:
        return f"every participant of the group {braced(open_.meeting.members)} must arrive"


def _copy(error: BaseException) -> BaseException:
    """An error for another thread to raise; each raise writes a traceback."""
    if not isinstance(error, XlaError):
        return CancelledError("another participant failed")
    return type(error)(error.message, op=error.op, instruction=error.instruction, hint=error.hint)

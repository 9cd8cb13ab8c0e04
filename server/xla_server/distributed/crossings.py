"""The meetings of one execution on this rank whose members are on several."""

import hashlib
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from xla_contract.errors import UnavailableError, XlaError
from xla_server.distributed.arrivals import meeting_key
from xla_server.distributed.exchange import Exchange, joined, require_size, unpack
from xla_server.distributed.frames import Bytes
from xla_server.distributed.messages import Arrive, Go, MeetingKey, Visit
from xla_server.distributed.parcels import Stamp
from xla_server.distributed.polling import LOOKS, BackOff
from xla_server.ops.evaluation import Array, Crossing, Meeting, Route, Value
from xla_server.sessions.error_context import copy_of
from xla_server.sessions.limits.blocking import releasing_slot

_Parts: TypeAlias = Mapping[int, Sequence[Array]]

_TOLD_TOGETHER = 64
"""Visits that wait at most to be told to rank 0 together."""

_AGAIN = 0.1
"""The part of a meeting's time after which rank 0 is told again that it is over."""


class Link(Protocol):
    """The way to tell rank 0 of an execution on this rank. No method waits."""

    def arrive(self, arrival: Arrive) -> None:
        """Tell visits; each that takes turns is answered by `Crossings.go`."""

    def late(self, key: MeetingKey, visit: int) -> None:
        """A visit has waited for its time: the answer is `Crossings.fail`, if it is not full.

        There is none while a rank that it waits for is silent.
        """

    def post(self, meeting: Meeting, value: Value) -> None:
        """Send a value to the second member."""

    def ended(self, number: int) -> None:
        """A participant has ended."""

    def failed(self, error: BaseException) -> None:
        """The execution has failed here; the answer is `Crossings.fail`."""


class Crossings:
    """Implements xla_server.sessions.runs.grids.rendezvous.Across.

    For large arrays a rank that has told rank 0 of its arrival waits for its word, whatever fails
    here meanwhile: either all ranks of a meeting exchange, or none. Small ones are sent as parcels
    at once; rank 0 is told when this rank has to wait for others, or many times have passed.
    """

    def __init__(
        self,
        run: int,
        ranks: Sequence[int],
        rank: int,
        exchange: Exchange,
        link: Link,
        seconds: float,
        *,
        is_one_program: bool,
    ) -> None:
        self._run = run
        self._ranks = ranks
        self._rank = rank
        self._exchange = exchange
        self._link = link
        self._seconds = seconds
        self._is_one_program = is_one_program
        self._lock = threading.Lock()
        self._telling = threading.Lock()
        """Keeps visits in order while they are told."""
        self._tickets: dict[MeetingKey, queue.SimpleQueue[Go | XlaError]] = {}
        self._spreads: dict[MeetingKey, Go] = {}
        self._failure: XlaError | None = None
        self._counts: dict[MeetingKey, int] = {}
        self._untold: list[Visit] = []

    def go(self, go: Go) -> None:
        """Let a meeting begin."""
        self._tickets[go.key].put(go)

    def fail(self, error: XlaError) -> None:
        """Let the meetings fail that have not begun."""
        with self._lock:
            self._failure = error
            for ticket in self._tickets.values():
                ticket.put(error)

    def gathered(self, meeting: Meeting, given: Sequence[Any], crossing: Crossing) -> list[Any]:
        """Return the values of all members, as far as those here read them; see Across."""
        places = self._places(meeting)
        mine = places[self._rank]
        parts = [crossing.absent(given[mine[0]]) if each is None else each for each in given]
        sent: dict[int, list[Array]] = {}
        received: dict[int, list[Array]] = {}
        whole: list[Array] = []
        for rank, others in places.items():
            if rank != self._rank:
                sent[rank] = _read(crossing, parts, mine, others)
                received[rank] = _read(crossing, parts, others, mine)
                whole = sent[rank]
        if crossing.is_small:
            for rank, data in self._passed(meeting, crossing.form, sent).items():
                unpack(data, [[array] for array in received[rank]])
            return parts
        require_size(sum(each.nbytes for arrays in sent.values() for each in arrays))
        require_size(sum(each.nbytes for arrays in received.values() for each in arrays))
        turns = (crossing.reads is not None) + (crossing.writes is not None)
        go = self._begun(meeting, crossing.form, turns)
        if crossing.writes is not None:
            self._spreads[go.key] = go
        if crossing.reads is None:
            return parts
        if crossing.route is Route.WHOLE:
            targets = {rank: [[each] for each in arrays] for rank, arrays in received.items()}
            self._exchange.gather(go.ranks, go.turn, whole, targets)
        elif crossing.route is Route.BLOCKS:
            self._exchange.swap(go.ranks, go.turn, sent, received)
        else:
            self._exchange.send_receive(go.ranks, go.turn, sent, received)
        return parts

    def spread(self, meeting: Meeting, shared: Any, crossing: Crossing) -> None:
        """Exchange what members wrote for all; raises UnavailableError."""
        writes = crossing.writes
        if writes is None:
            return
        go = self._spreads.pop(meeting_key(meeting, is_one_program=self._is_one_program))
        places = self._places(meeting)
        mine = [alike[0] for place in places.pop(self._rank) for alike in writes(shared, place)]
        others = {
            rank: [alike for place in theirs for alike in writes(shared, place)]
            for rank, theirs in places.items()
        }
        turn = go.turn + (crossing.reads is not None)
        self._exchange.gather(go.ranks, turn, mine, others)

    def post(self, meeting: Meeting, value: Value) -> None:
        """Leave a value for a participant on another rank."""
        self._link.post(meeting, value)

    def ended(self, number: int) -> None:
        """Say that a participant of this rank has ended."""
        self._tell()
        self._link.ended(number)

    def failed(self, error: BaseException) -> None:
        """Say that the execution has failed on this rank."""
        self._link.failed(error)

    def _passed(
        self, meeting: Meeting, form: str, sent: Mapping[int, Sequence[Array]]
    ) -> Mapping[int, Bytes]:
        """Send other ranks small arrays, and wait for what they send."""
        key, number = self._come(meeting, form, 0)
        parcels = self._exchange.parcels
        digest = hashlib.blake2b(repr((key, form)).encode(), digest_size=16).digest()
        stamp = Stamp(self._run, number, digest)
        parcels.send(stamp, {rank: joined(arrays) for rank, arrays in sent.items()})
        back_off, late = BackOff(LOOKS), time.monotonic() + self._seconds
        with releasing_slot():
            while (found := parcels.shelf.take(stamp, sent)) is None:
                parcels.look()
                if self._failure is not None:
                    raise copy_of(self._failure)
                if back_off.is_waiting:
                    self._tell()
                    if time.monotonic() > late:
                        if parcels.failure is not None:
                            raise UnavailableError(
                                f"ranks must receive what others send, got {parcels.failure}"
                            )
                        self._link.late(key, number)
                        late += self._seconds * _AGAIN
                back_off.wait()
        return found

    def _come(self, meeting: Meeting, form: str, turns: int) -> tuple[MeetingKey, int]:
        """Note a visit of a meeting; its key and number."""
        key = meeting_key(meeting, is_one_program=self._is_one_program)
        with self._lock:
            if self._failure is not None:
                raise copy_of(self._failure)
            number = self._counts.get(key, 0)
            self._counts[key] = number + 1
            self._untold.append(Visit(meeting, number, form, turns))
            is_full = len(self._untold) >= _TOLD_TOGETHER
        if is_full:
            self._tell()
        return key, number

    def _tell(self) -> None:
        """Tell rank 0 of visits that it does not know of."""
        with self._telling:
            with self._lock:
                visits, self._untold = self._untold, []
            if visits:
                self._link.arrive(Arrive(self._run, tuple(visits)))

    def _begun(self, meeting: Meeting, form: str, turns: int) -> Go:
        """Wait until all ranks of a meeting have come to it."""
        ticket: queue.SimpleQueue[Go | XlaError] = queue.SimpleQueue()
        # Before the visit is noted: any thread may tell it.
        self._tickets[meeting_key(meeting, is_one_program=self._is_one_program)] = ticket
        key, number = self._come(meeting, form, turns)
        self._tell()
        with releasing_slot():
            answer = self._answer(ticket, key, number)
        with self._lock:
            del self._tickets[key]
        if isinstance(answer, XlaError):
            raise copy_of(answer)
        return answer

    def _answer(
        self, ticket: "queue.SimpleQueue[Go | XlaError]", key: MeetingKey, visit: int
    ) -> Go | XlaError:
        """Wait for rank 0's word, and tell it when the time is over until there is one."""
        seconds = self._seconds
        while True:
            try:
                return ticket.get(timeout=seconds)
            except queue.Empty:
                self._link.late(key, visit)
                seconds = self._seconds * _AGAIN

    def _places(self, meeting: Meeting) -> dict[int, list[int]]:
        """Return the numbers in the group of each rank's members, by rank."""
        places: dict[int, list[int]] = {}
        for place, member in enumerate(meeting.members):
            places.setdefault(self._ranks[member], []).append(place)
        return dict(sorted(places.items()))


def _read(
    crossing: Crossing, parts: Sequence[Any], sources: Sequence[int], targets: Sequence[int]
) -> list[Array]:
    """Return the arrays that targets read of sources."""
    if crossing.reads is None:
        return []
    if crossing.route is Route.WHOLE:
        # All read the same, which is sent once.
        targets = targets[:1]
    return [
        array
        for source in sources
        for target in targets
        for array in crossing.reads(parts[source], source, target)
    ]

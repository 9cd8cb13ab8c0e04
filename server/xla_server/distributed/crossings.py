"""The meetings of one execution on this rank whose members are on several."""

import queue
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from xla_contract.errors import XlaError
from xla_server.distributed.arrivals import meeting_key
from xla_server.distributed.exchange import Exchange, require_size
from xla_server.distributed.messages import Arrive, Go, MeetingKey
from xla_server.ops.evaluation import Array, Crossing, Meeting, Route, Value
from xla_server.sessions.error_context import copy_of
from xla_server.sessions.limits.blocking import releasing_slot

_Parts: TypeAlias = Mapping[int, Sequence[Array]]

_AGAIN = 0.1
"""The part of a meeting's time after which rank 0 is told again that it is over."""


class Link(Protocol):
    """The way to tell rank 0 of an execution on this rank. No method waits."""

    def arrive(self, arrival: Arrive) -> None:
        """All members of a meeting on this rank have come; the answer is `Crossings.go`."""

    def late(self, key: MeetingKey) -> None:
        """A meeting has waited for its time: the answer is `Crossings.go`, or `Crossings.fail`.

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

    A rank that has told rank 0 of its arrival waits for its word, whatever fails here meanwhile:
    either all ranks of a meeting exchange, or none.
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
        self._tickets: dict[MeetingKey, queue.SimpleQueue[Go | XlaError]] = {}
        self._spreads: dict[MeetingKey, Go] = {}
        self._failure: XlaError | None = None

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
        require_size(sum(each.nbytes for arrays in sent.values() for each in arrays))
        require_size(sum(each.nbytes for arrays in received.values() for each in arrays))
        turns = (crossing.reads is not None) + (crossing.writes is not None)
        go = self._begun(Arrive(self._run, meeting, crossing.form, turns))
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
        self._link.ended(number)

    def failed(self, error: BaseException) -> None:
        """Say that the execution has failed on this rank."""
        self._link.failed(error)

    def _begun(self, arrival: Arrive) -> Go:
        """Wait until all ranks of a meeting have come to it."""
        key = meeting_key(arrival.meeting, is_one_program=self._is_one_program)
        ticket: queue.SimpleQueue[Go | XlaError] = queue.SimpleQueue()
        with self._lock:
            if self._failure is not None:
                raise copy_of(self._failure)
            self._tickets[key] = ticket
        self._link.arrive(arrival)
        with releasing_slot():
            answer = self._answer(ticket, key)
        with self._lock:
            del self._tickets[key]
        if isinstance(answer, XlaError):
            raise copy_of(answer)
        return answer

    def _answer(self, ticket: "queue.SimpleQueue[Go | XlaError]", key: MeetingKey) -> Go | XlaError:
        """Wait for rank 0's word, and tell it when the time is over until there is one."""
        seconds = self._seconds
        while True:
            try:
                return ticket.get(timeout=seconds)
            except queue.Empty:
                self._link.late(key)
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

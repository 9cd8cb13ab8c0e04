"""One rank's part in the collectives of an execution whose members are on several ranks."""

import hashlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xla_contract.errors import UnavailableError, XlaError
from xla_server.distributed.exchange import (
    Exchange,
    is_dense,
    joined,
    receive_buffer,
    require_size,
    unpack,
)
from xla_server.distributed.reductions import is_native
from xla_server.distributed.transport import messages
from xla_server.distributed.transport.frames import Bytes
from xla_server.distributed.transport.parcels import Delivery, Stamp
from xla_server.distributed.transport.polling import POLLS, BackOff
from xla_server.distributed.transport.shared_regions import SharedSlots
from xla_server.execution.collectives_protocol import CollectivePlan
from xla_server.ops.evaluation import (
    Array,
    Crossing,
    Form,
    GroupCollective,
    Reduction,
    Route,
    Value,
)
from xla_server.runtime.collective_records import NativeCollectives
from xla_server.runtime.collective_records import Visit as NativeVisit
from xla_server.sessions.error_context import copy_of
from xla_server.sessions.limits.blocking import releasing_slot

_AGAIN = 0.1
"""Interval of reports to rank 0 that a collective is late, as a fraction of its timeout."""


class _ExchangePlan(NamedTuple):
    """A collective with operands of certain types and dimensions, `form`: equal for all its visits.

    `numbers` maps each rank to the positions of its members in the group. `digests` identify the
    parcels of the two steps, gathering and spreading.
    """

    key: messages.RendezvousKey
    form: str
    numbers: Mapping[int, Sequence[int]]
    digests: tuple[bytes, bytes]


class _Visited(NamedTuple):
    """A visit of this rank that needs no permission of rank 0."""

    plan: _ExchangePlan
    number: int


class Crossings:
    """Implements xla_server.sessions.runs.grids.rendezvous.Across.

    If the operands of a group take more than EAGER_BYTES, they are sent by MPI's collectives. The
    rank then reports its arrival to rank 0 and waits for the answer, whatever fails here meanwhile:
    either all ranks of the group take part in the exchange, or none. Smaller operands are sent as
    parcels, at once; the arrival is reported to rank 0 only if this rank has to wait for others. If
    the run has a part of the shared regions, participants on ranks of one machine meet in native
    code, and call this object only when they have to wait.

    `send` sends a message to rank 0, and `failed` reports that the execution has failed here;
    neither waits. Rank 0 answers each visit that takes turns by `go`. It answers one that is late
    by `fail`, unless all members have come or it waits for a silent rank.
    """

    def __init__(
        self,
        options: messages.RunOptions,
        rank: int,
        exchange: Exchange,
        send: Callable[[object], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._options = options
        self._rank = rank
        self._exchange = exchange
        self._send = send
        self.failed = failed
        """Reports that the execution has failed on this rank."""
        self._lock = threading.Lock()
        self._native: NativeCollectives | None = None
        self._noted: dict[tuple[GroupCollective, int], int] = {}
        """The last visit in native code that was noted for rank 0, by collective and member."""
        self._reporting = threading.Lock()
        """Held while visits are reported, so that they are sent in order."""
        self._tickets: dict[messages.RendezvousKey, queue.SimpleQueue[messages.Go | XlaError]] = {}
        self._spreads: dict[messages.RendezvousKey, messages.Go | _Visited] = {}
        self._plans: dict[tuple[GroupCollective, Form], _ExchangePlan] = {}
        self._failure: XlaError | None = None
        self._counts: dict[messages.RendezvousKey, int] = {}
        self._unsent: dict[tuple[messages.RendezvousKey, tuple[int, ...]], messages.Visit] = {}
        """Visits that rank 0 does not know of: the last one by collective and members."""

    def go(self, go: messages.Go) -> None:
        """Handle rank 0's message that a collective may begin."""
        self._tickets[go.key].put(go)

    def fail(self, error: XlaError) -> None:
        """Fail all collectives that have not begun."""
        with self._lock:
            self._failure = error
            for ticket in self._tickets.values():
                ticket.put(error)
        self._exchange.parcels.end(self._options.run)

    def gathered(
        self, collective: GroupCollective, given: Sequence[Any], crossing: Crossing
    ) -> list[Any]:
        """Return the values of all members, as far as those here read them; see Across."""
        plan = self._plan(collective, crossing.form)
        mine = plan.numbers[self._rank]
        reduction = crossing.reduction
        if self._options.is_fast and reduction is not None and is_native(reduction):
            here = [given[index] for index in mine]
            totals = self._reduced(collective, here, reduction, plan)
            return [reduction.total(each, totals) for each in given]
        parts = [crossing.absent(given[mine[0]]) if each is None else each for each in given]
        sent: dict[int, list[Array]] = {}
        received: dict[int, list[Array]] = {}
        whole: list[Array] = []
        for rank, others in plan.numbers.items():
            if rank != self._rank:
                sent[rank] = _read(crossing, parts, mine, others)
                received[rank] = _read(crossing, parts, others, mine)
                whole = sent[rank]
        if crossing.is_eager:
            visited = _Visited(plan, self._record_visit(collective, plan, 0))
            if crossing.writes is not None:
                self._spreads[plan.key] = visited
            if crossing.reads is not None:
                buffers = {rank: receive_buffer(arrays) for rank, arrays in received.items()}
                self._exchange_parcels(visited, 0, sent, buffers)
                for rank, arrays in received.items():
                    if not is_dense(arrays):
                        unpack(buffers[rank], [[array] for array in arrays])
            return parts
        require_size(sum(each.nbytes for arrays in sent.values() for each in arrays))
        require_size(sum(each.nbytes for arrays in received.values() for each in arrays))
        turns = (crossing.reads is not None) + (crossing.writes is not None)
        go = self._await_go(collective, plan, turns)
        if crossing.writes is not None:
            self._spreads[go.key] = go
        if crossing.reads is None:
            return parts
        if crossing.route is Route.WHOLE:
            targets = {rank: [[each] for each in arrays] for rank, arrays in received.items()}
            self._exchange.all_gather(go.ranks, go.turn, whole, targets)
        else:
            self._exchange.send_receive(go.ranks, go.turn, sent, received)
        return parts

    def spread(self, collective: GroupCollective, shared: Any, crossing: Crossing) -> None:
        """Exchange what members wrote for all; raises UnavailableError."""
        writes = crossing.writes
        if writes is None:
            return
        plan = self._plan(collective, crossing.form)
        go = self._spreads.pop(plan.key, None)
        if go is None:
            # MPI has reduced for all.
            return
        others = {
            rank: [alike for index in theirs for alike in writes(shared, index)]
            for rank, theirs in plan.numbers.items()
        }
        mine = [alike[0] for alike in others.pop(self._rank)]
        if isinstance(go, _Visited):
            sizes = {
                rank: sum(alike[0].nbytes for alike in arrays) for rank, arrays in others.items()
            }
            # MPI may use it longer than the buffers of results live.
            buffers = {rank: np.empty(size, np.uint8) for rank, size in sizes.items()}
            written = [joined(mine)]
            self._exchange_parcels(go, 1, dict.fromkeys(others, written), buffers)
            for rank, arrays in others.items():
                unpack(buffers[rank], arrays)
            return
        turn = go.turn + (crossing.reads is not None)
        self._exchange.all_gather(go.ranks, turn, mine, others)

    def collectives(self, plan: CollectivePlan) -> NativeCollectives | None:
        """Return the native collectives in memory that ranks share; see Across."""
        part, regions = self._options.part, self._exchange.regions
        if part is not None and regions is not None:
            sizes = [each.copied_bytes for each in plan.collectives]
            slots = SharedSlots(regions, part, self._options.ranks, sizes)
            self._native = NativeCollectives(plan, self._options.grid, slots.member, is_polled=True)
            self._native.begin(part.first_stamp)
        return self._native

    def wait(self, number: int, visit: NativeVisit) -> None:
        """Wait at a native collective; see Across."""
        if self._native is not None and visit.missing():
            self._note((number,))
            key = self._options.key(visit.collective)
            count = visit.stamp - self._native.first_stamp
            self._poll(lambda: not visit.missing(), key, count)

    def post(self, collective: GroupCollective, value: Value) -> None:
        """Send a value to a participant on another rank."""
        self._send(messages.Post(self._options.run, collective, value))

    def ended(self, number: int) -> None:
        """Report that a participant of this rank has ended."""
        self._note((number,))
        self._report()
        self._send(messages.Ended(self._options.run, number))

    def _reduced(
        self,
        collective: GroupCollective,
        given: Sequence[Any],
        reduction: Reduction,
        plan: _ExchangePlan,
    ) -> Sequence[Array]:
        """Reduce the values of members here, then the totals of all ranks by MPI's Allreduce."""
        totals = reduction.reduce(given)
        require_size(sum(total.nbytes for total in totals))
        plan = plan._replace(form=f"{plan.form} by MPI's {reduction.opcode}")
        go = self._await_go(collective, plan, 1)
        self._exchange.all_reduce(go.ranks, go.turn, totals, reduction.opcode)
        return totals

    def _exchange_parcels(
        self,
        visited: _Visited,
        step: int,
        sent: Mapping[int, Sequence[Array]],
        buffers: Mapping[int, Bytes],
    ) -> None:
        parcels = self._exchange.parcels
        plan, number = visited
        stamp = Stamp(self._options.run, number, plan.digests[step])
        delivery = parcels.exchange(
            stamp, {rank: joined(arrays) for rank, arrays in sent.items()}, buffers
        )
        try:
            self._poll(delivery.is_done, plan.key, number)
        except XlaError:
            self._await_release(delivery)
            raise

    def _poll(self, is_over: Callable[[], bool], key: messages.RendezvousKey, visit: int) -> None:
        """Wait at a visit until `is_over`; report it to rank 0 after some polls, and when late."""
        parcels = self._exchange.parcels
        back_off, late = BackOff(POLLS), time.monotonic() + self._options.timeout_seconds
        with releasing_slot():
            while not is_over():
                if self._failure is not None:
                    raise copy_of(self._failure)
                if back_off.is_waiting:
                    self._report()
                    if time.monotonic() > late:
                        if parcels.failure is not None:
                            raise UnavailableError(
                                f"ranks must receive what others send, got {parcels.failure}"
                            )
                        self._send(messages.Late(self._options.run, key, visit))
                        late += self._options.timeout_seconds * _AGAIN
                back_off.wait()

    def _await_release(self, delivery: Delivery) -> None:
        """Wait until MPI uses no memory of members, which ends as other ranks drop the parcels."""
        back_off = BackOff()
        while not delivery.may_abandon(is_lost=self._exchange.failure is not None):
            back_off.wait()

    def _record_visit(self, collective: GroupCollective, plan: _ExchangePlan, turns: int) -> int:
        """Note a visit to which all members of this rank have come; return its number."""
        here = tuple(collective.members[index] for index in plan.numbers[self._rank])
        self._note(here)
        with self._lock:
            if self._failure is not None:
                raise copy_of(self._failure)
            number = self._counts.get(plan.key, 0)
            self._counts[plan.key] = number + 1
            self._unsent[plan.key, here] = messages.Visit(
                collective, number, plan.form, turns, here
            )
        return number

    def _note(self, members: Sequence[int]) -> None:
        """Note the native visits of members of this rank that are not in native code at present."""
        if self._native is None:
            return
        for member in members:
            for collective, visit in self._native.visits(member):
                if visit <= self._noted.get((collective, member), -1):
                    continue
                self._noted[collective, member] = visit
                key = self._options.key(collective)
                with self._lock:
                    self._unsent[key, (member,)] = messages.Visit(
                        collective, visit, "", 0, (member,)
                    )

    def _report(self) -> None:
        with self._reporting:
            with self._lock:
                visits, self._unsent = self._unsent, {}
            if visits:
                self._send(messages.Arrive(self._options.run, tuple(visits.values())))

    def _await_go(
        self, collective: GroupCollective, plan: _ExchangePlan, turns: int
    ) -> messages.Go:
        """Wait until members of all ranks have come to a collective; return rank 0's message."""
        key = plan.key
        ticket: queue.SimpleQueue[messages.Go | XlaError] = queue.SimpleQueue()
        # Before the visit is noted, as any thread may report it from then on.
        self._tickets[key] = ticket
        number = self._record_visit(collective, plan, turns)
        self._report()
        with releasing_slot():
            answer = self._answer(ticket, key, number)
        with self._lock:
            del self._tickets[key]
        if isinstance(answer, XlaError):
            raise copy_of(answer)
        return answer

    def _answer(
        self,
        ticket: "queue.SimpleQueue[messages.Go | XlaError]",
        key: messages.RendezvousKey,
        visit: int,
    ) -> messages.Go | XlaError:
        """Wait for rank 0's answer; from the timeout on, report repeatedly that it is late."""
        seconds = self._options.timeout_seconds
        while True:
            try:
                return ticket.get(timeout=seconds)
            except queue.Empty:
                self._send(messages.Late(self._options.run, key, visit))
                seconds = self._options.timeout_seconds * _AGAIN

    def _plan(self, collective: GroupCollective, form: Form) -> _ExchangePlan:
        plan = self._plans.get((collective, form))
        if plan is None:
            key = self._options.key(collective)
            text = ", ".join(f"{dtype}{list(sizes)}" for dtype, sizes in form)
            numbers: dict[int, list[int]] = {}
            for index, member in enumerate(collective.members):
                numbers.setdefault(self._options.ranks[member], []).append(index)
            digests = [
                hashlib.blake2b(repr((key, text, step)).encode(), digest_size=16).digest()
                for step in (0, 1)
            ]
            plan = _ExchangePlan(key, text, dict(sorted(numbers.items())), (digests[0], digests[1]))
            self._plans[collective, form] = plan
        return plan


def _read(
    crossing: Crossing, parts: Sequence[Any], sources: Sequence[int], targets: Sequence[int]
) -> list[Array]:
    if crossing.reads is None:
        return []
    if crossing.route is Route.WHOLE:
        # All targets read the same data, which is sent once.
        targets = targets[:1]
    return [
        array
        for source in sources
        for target in targets
        for array in crossing.reads(parts[source], source, target)
    ]

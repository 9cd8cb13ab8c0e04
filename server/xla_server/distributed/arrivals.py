"""Rank 0's record of which members have arrived at the collectives that span several ranks."""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.types.devices.replica_groups import braced
from xla_server.distributed.transport.messages import RendezvousKey, RunOptions, Visit
from xla_server.sessions.runs.grids.rendezvous import incomplete, late


@dataclasses.dataclass(slots=True)
class _Open:
    """A visit of a collective, with the members that are known to have come so far."""

    first: Visit
    arrived: set[int]


@dataclasses.dataclass
class Arrivals:
    """The open collectives of one execution. Not thread-safe.

    A rank may report a member's visits late, and it reports only the last visit of each collective,
    which implies all earlier ones. So rank 0 knows a prefix of what each member did, and reports
    no deadlock that does not exist. Proof: of the visits that look incomplete, take the first one
    that completes; the members that it still misses wait at none of the others.

    Its methods raise FailedPreconditionError for a collective with a member that has ended.
    """

    _options: RunOptions
    _open: dict[RendezvousKey, _Open] = dataclasses.field(default_factory=dict, init=False)
    _next: dict[RendezvousKey, int] = dataclasses.field(default_factory=dict, init=False)
    """Number of visits of each collective to which all members are known to have come."""
    _ended: set[int] = dataclasses.field(default_factory=set, init=False)

    def arrive(self, visits: Sequence[Visit]) -> list[tuple[Visit, RendezvousKey, tuple[int, ...]]]:
        """Record visits; return those that all members have come to, each with its key and ranks.

        Raises InvalidArgumentError if ranks have operands of different element types or dimensions.
        """
        full = []
        for visit in visits:
            key = self._options.key(visit.collective)
            if visit.number < self._next.get(key, 0):
                continue
            open_ = self._open.get(key)
            if open_ is None or open_.first.number < visit.number:
                # A member arrives again only when it has met all others.
                self._next[key] = visit.number
                open_ = self._open[key] = _Open(visit, set())
            if visit.form != open_.first.form:
                raise InvalidArgumentError(
                    "operands must have equal types and dimensions on all participants, got "
                    f"{open_.first.form:.200} and {visit.form:.200}"
                ).at(visit.collective.opcode, visit.collective.instruction)
            open_.arrived.update(visit.arrived)
            if open_.arrived.issuperset(visit.collective.members):
                del self._open[key]
                self._next[key] = visit.number + 1
                ranks = {self._options.ranks[member] for member in visit.collective.members}
                full.append((visit, key, tuple(sorted(ranks))))
        self._find_missing()
        return full

    def end(self, number: int) -> None:
        """Record that a participant has ended."""
        self._ended.add(number)
        self._find_missing()

    def late(self, key: RendezvousKey, visit: int) -> XlaError | None:
        """Return the error for a visit that reached its timeout; None if no member is missing."""
        open_ = self._open.get(key)
        if open_ is None or open_.first.number != visit:
            return None
        return late(open_.first.collective, self._missing(open_), self._options.timeout_seconds)

    def missing_ranks(self, key: RendezvousKey, visit: int) -> set[int]:
        """Return the ranks whose members have not come to a visit; none if all have."""
        open_ = self._open.get(key)
        is_open = open_ is not None and open_.first.number == visit
        missing = self._missing(open_) if open_ is not None and is_open else []
        return {self._options.ranks[each] for each in missing}

    def _missing(self, open_: _Open) -> list[int]:
        members = open_.first.collective.members
        return [each for each in members if each not in open_.arrived]

    def _find_missing(self) -> None:
        waiting = {
            member: open_.first.collective
            for open_ in self._open.values()
            for member in open_.arrived
        }
        is_stuck = len(self._ended | waiting.keys()) == len(self._options.ranks)
        for open_ in self._open.values():
            collective, missing = open_.first.collective, self._missing(open_)
            ended = [each for each in missing if each in self._ended]
            if ended:
                raise incomplete(collective, f"{braced(ended)} ended without it")
            if is_stuck:
                places = ", ".join(
                    f"{each} at {waiting[each].opcode} %{waiting[each].instruction}"
                    for each in missing[:8]
                )
                raise incomplete(collective, f"all participants waiting, {places}")

"""The meetings of an execution whose members are on several ranks, as rank 0 sees them."""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.types.devices.replica_groups import braced
from xla_server.distributed.transport.messages import MeetingKey, RunOptions, Visit
from xla_server.ops.evaluation import Meeting
from xla_server.sessions.runs.grids.rendezvous import incomplete, late


def meeting_key(meeting: Meeting, *, is_one_program: bool) -> MeetingKey:
    """Return the key that members know a meeting by: its instruction, or its channel."""
    if is_one_program:
        return meeting.instruction, meeting.members
    return str(meeting.opcode), meeting.channel_id, meeting.members


@dataclasses.dataclass(slots=True)
class _Open:
    """A visit of a meeting at which these members have arrived."""

    first: Visit
    come: set[int]


@dataclasses.dataclass
class Arrivals:
    """The open meetings of one execution. Not thread-safe.

    A rank may report a member's visits long after them, the last one of a meeting for all before
    it, and the member may make others before all are known to have arrived. Rank 0 always knows a
    prefix of each member's visits, so nothing seems stuck that is not: of the visits that seem
    incomplete, the members missing at the first to end are still to be reported.

    Its methods raise FailedPreconditionError for a meeting with a member that has ended.
    """

    _options: RunOptions
    _open: dict[MeetingKey, _Open] = dataclasses.field(default_factory=dict, init=False)
    _next: dict[MeetingKey, int] = dataclasses.field(default_factory=dict, init=False)
    """Visits of each meeting at which all members are known to have arrived."""
    _ended: set[int] = dataclasses.field(default_factory=set, init=False)

    def arrive(self, visits: Sequence[Visit]) -> list[tuple[Visit, MeetingKey, tuple[int, ...]]]:
        """Record arrivals of members; return the visits that are full, and their ranks.

        Raises InvalidArgumentError if ranks have operands of different form.
        """
        full = []
        for visit in visits:
            key = meeting_key(visit.meeting, is_one_program=self._options.is_one_program)
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
                ).at(visit.meeting.opcode, visit.meeting.instruction)
            open_.come.update(visit.come)
            if open_.come.issuperset(visit.meeting.members):
                del self._open[key]
                self._next[key] = visit.number + 1
                ranks = {self._options.ranks[member] for member in visit.meeting.members}
                full.append((visit, key, tuple(sorted(ranks))))
        self._find_missing()
        return full

    def end(self, number: int) -> None:
        """Record that a participant has ended."""
        self._ended.add(number)
        self._find_missing()

    def late(self, key: MeetingKey, visit: int) -> XlaError | None:
        """The timeout error of a visit; None if the visit is full."""
        open_ = self._open.get(key)
        if open_ is None or open_.first.number != visit:
            return None
        return late(open_.first.meeting, self._missing(open_), self._options.timeout_seconds)

    def missing_ranks(self, key: MeetingKey, visit: int) -> set[int]:
        """The ranks that have not arrived at a visit; none if it is full."""
        open_ = self._open.get(key)
        is_open = open_ is not None and open_.first.number == visit
        missing = self._missing(open_) if open_ is not None and is_open else []
        return {self._options.ranks[each] for each in missing}

    def _missing(self, open_: _Open) -> list[int]:
        members = open_.first.meeting.members
        return [each for each in members if each not in open_.come]

    def _find_missing(self) -> None:
        waiting = {
            member: open_.first.meeting for open_ in self._open.values() for member in open_.come
        }
        is_stuck = len(self._ended | waiting.keys()) == len(self._options.ranks)
        for open_ in self._open.values():
            meeting, missing = open_.first.meeting, self._missing(open_)
            ended = [each for each in missing if each in self._ended]
            if ended:
                raise incomplete(meeting, f"{braced(ended)} ended without it")
            if is_stuck:
                places = ", ".join(
                    f"{each} at {waiting[each].opcode} %{waiting[each].instruction}"
                    for each in missing[:8]
                )
                raise incomplete(meeting, f"all participants waiting, {places}")

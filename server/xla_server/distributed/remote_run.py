"""One execution on devices of several ranks, as rank 0 sees it."""

import threading
from collections.abc import Callable, Sequence

from xla_contract.errors import CancelledError, XlaError
from xla_contract.types.device_grid import DeviceGrid
from xla_contract.types.literal import Literal
from xla_server.backends.platform import Profile
from xla_server.distributed import messages
from xla_server.distributed.arrivals import Arrivals
from xla_server.distributed.crossings import Crossings
from xla_server.distributed.exchange import Exchange
from xla_server.distributed.windows import Lease
from xla_server.execution.cancellation import Cancellation
from xla_server.ops.evaluation import Meeting, Value
from xla_server.sessions.error_context import client_error
from xla_server.sessions.limits.blocking import releasing_slot
from xla_server.sessions.runs.grids.participant_threads import start
from xla_server.sessions.runs.grids.rendezvous import Rendezvous
from xla_server.sessions.runs.hosts import Place


class RemoteRun:
    """The state of an execution, and what rank 0's own participants tell (crossings.Link).

    `send` sends a message to a rank, and `turns` takes turns of some ranks' traffic: it returns the
    first of so many. `is_silent` says that a rank has missed signs of life, and `expect` is told
    that other ranks are about to say something. The first failure is the one that all are told.
    """

    def __init__(
        self,
        number: int,
        places: Sequence[Place],
        ranks: Sequence[int],
        grid: DeviceGrid,
        cancellation: Cancellation,
        exchange: Exchange,
        send: Callable[[int, object], None],
        turns: Callable[[tuple[int, ...], int], int],
        is_silent: Callable[[int], bool],
        expect: Callable[[], None],
        seconds: float,
        lease: Lease | None,
        *,
        is_one_program: bool,
        is_fast: bool,
    ) -> None:
        self.number = number
        self._places = places
        self._ranks = tuple(ranks)
        self._grid = grid
        self._cancellation = cancellation
        self._send = send
        self._turns = turns
        self._is_silent = is_silent
        self._expect = expect
        self._seconds = seconds
        self.lease = lease
        self._is_one_program = is_one_program
        self._is_fast = is_fast
        self._lock = threading.Lock()
        self._busy: set[int] = set()
        self._is_over = threading.Event()
        self._arrivals = Arrivals(ranks, seconds, is_one_program=is_one_program)
        self._crossings = Crossings(
            number,
            ranks,
            0,
            exchange,
            self,
            seconds,
            grid,
            lease,
            is_one_program=is_one_program,
            is_fast=is_fast,
        )
        self.here = [each for each, rank in enumerate(ranks) if rank == 0]
        self.meetings = Rendezvous(
            grid,
            seconds,
            is_one_program=is_one_program,
            here=self.here,
            across=self._crossings,
        )
        self.failure: BaseException | None = None
        self.results: dict[int, tuple[Literal, Profile]] = {}

    def begin(self, oldest: int) -> None:
        """Let the other ranks start their participants; runs before `oldest` have ended."""
        try:
            # Other messages wait meanwhile: a rank must know of an execution before it fails.
            with self._lock:
                for rank in sorted({*self._ranks} - {0}):
                    self._send(rank, self._start_of(rank, oldest))
                    self._busy.add(rank)
        except XlaError as error:
            self.stop(error)
        if not self._busy:
            self._is_over.set()

    def _start_of(self, rank: int, oldest: int) -> messages.Start:
        jobs = tuple(
            messages.Job(
                number,
                place.name,
                place.program.key,
                place.device,
                tuple(argument.to_literal() for argument in place.arguments),
            )
            for number, place in enumerate(self._places)
            if self._ranks[number] == rank
        )
        return messages.Start(
            self.number,
            oldest,
            self._grid,
            self._ranks,
            jobs,
            self._seconds,
            self.lease,
            self._is_one_program,
            self._is_fast,
        )

    def wait(self) -> None:
        """Wait until all participants of other ranks have ended."""
        with releasing_slot():
            self._is_over.wait()

    def stop(self, error: BaseException) -> None:
        """Let all participants fail with this error, unless there was one before."""
        self.failed(error)
        self._cancellation.cancel(_told(error))

    def lose(self, error: XlaError) -> None:
        """Stop without waiting for other ranks."""
        self.stop(error)
        with self._lock:
            self._busy.clear()
        self._is_over.set()

    def done(self, rank: int, results: Sequence[tuple[int, Literal, Profile]]) -> None:
        """Note that all participants of a rank have ended."""
        with self._lock:
            self._busy.discard(rank)
            self.results |= {number: (literal, profile) for number, literal, profile in results}
            is_over = not self._busy
        if is_over:
            self._is_over.set()

    def arrived(self, arrival: messages.Arrive) -> None:
        """Note visits of a rank; let the meetings begin that are full and wait for it."""
        try:
            with self._lock:
                if self.failure is not None:
                    return
                for visit, key, ranks in self._arrivals.arrive(arrival.visits):
                    if visit.turns:
                        self._begin_meeting(key, ranks, visit.turns)
        except XlaError as error:
            self.stop(error)

    def _begin_meeting(self, key: messages.MeetingKey, ranks: tuple[int, ...], turns: int) -> None:
        go = messages.Go(self.number, key, ranks, self._turns(ranks, turns))
        for each in ranks:
            if each == 0:
                self._crossings.go(go)
            else:
                self._send(each, go)

    def ended_there(self, rank: int, number: int) -> None:
        """Note that a participant of another rank has ended."""
        if self.failure is None:
            self._places[number].ended()
        self.meetings.end(number)
        self._note_end(number, rank)

    def passed(self, message: messages.Post) -> None:
        """Hand a value on to the rank of the participant that it is for."""
        self.post(message.meeting, message.value)

    def asked(self, rank: int, message: messages.Ask) -> None:
        """Answer a participant's question, in a thread of its own."""
        start(lambda: self._send(rank, self._reply(message)))

    def arrive(self, arrival: messages.Arrive) -> None:
        """Note an arrival of this rank."""
        self._expect()
        self.arrived(arrival)

    def late(self, key: messages.MeetingKey, visit: int) -> None:
        """Fail if a visit is not full whose time is over, unless it waits for a silent rank.

        A silent rank is lost within its own time, which is the error to tell, or speaks again.
        """
        with self._lock:
            if any(map(self._is_silent, self._arrivals.missing_ranks(key, visit))):
                return
            error = self._arrivals.late(key, visit)
        if error is not None:
            self.stop(error)

    def post(self, meeting: Meeting, value: Value) -> None:
        """Send a value to the rank of its receiver."""
        rank = self._ranks[meeting.members[1]]
        try:
            if rank == 0:
                self.meetings.post(meeting, value)
            else:
                self._send(rank, messages.Post(self.number, meeting, value))
        except XlaError as error:
            self.stop(error)

    def ended(self, number: int) -> None:
        """Note that a participant of this rank has ended."""
        self._note_end(number, 0)

    def failed(self, error: BaseException) -> None:
        """Tell all ranks of a failure, unless there was one before."""
        with self._lock:
            if self.failure is not None:
                return
            self.failure = error
            told = _told(error)
            self._crossings.fail(told)
            for rank in self._busy:
                self._send(rank, messages.Failed(self.number, told))

    def _note_end(self, number: int, rank: int) -> None:
        try:
            with self._lock:
                if self.failure is not None:
                    return
                for each in self._busy - {rank}:
                    self._send(each, messages.Ended(self.number, number))
                self._arrivals.end(number)
        except XlaError as error:
            self.stop(error)

    def _reply(self, message: messages.Ask) -> messages.Reply:
        place, question = self._places[message.number], message.question
        cancellation = self._cancellation
        answer: object = None
        try:
            match question:
                case messages.TakeInfeed(shape, name, channel_id):
                    answer = place.feeds.take_infeed(shape, cancellation, name, channel_id)
                case messages.PutOutfeed(value, shape, name, channel_id):
                    place.feeds.put_outfeed(value, shape, cancellation, name, channel_id)
                case messages.SendOnChannel(channel_id, value, shape):
                    place.channels.send(channel_id, value, shape, cancellation)
                case messages.ReceiveFromChannel(channel_id, shape):
                    answer = place.channels.receive(channel_id, shape, cancellation)
        except Exception as error:
            answer = client_error(error, "execution")
        return messages.Reply(self.number, message.number, answer)


def _told(error: BaseException) -> XlaError:
    """Return the error that other participants are told of."""
    return error if isinstance(error, XlaError) else CancelledError("another participant failed")

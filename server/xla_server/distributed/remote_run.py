"""Rank 0's state of one execution on devices of several ranks."""

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xla_contract.errors import CancelledError, XlaError
from xla_contract.types.literal import Literal
from xla_server.backends.platform import Profile
from xla_server.distributed.arrivals import Arrivals
from xla_server.distributed.crossings import Crossings
from xla_server.distributed.exchange import Exchange
from xla_server.distributed.transport import messages
from xla_server.distributed.transport.mailbox import Mailbox
from xla_server.distributed.transport.messages import RunOptions
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.error_context import reported
from xla_server.sessions.limits.blocking import releasing_slot
from xla_server.sessions.runs.grids.participant_threads import start
from xla_server.sessions.runs.grids.rendezvous import Rendezvous
from xla_server.sessions.runs.hosts import HostParticipant


class RemoteRun:
    """The state of an execution, and the handler of all ranks' messages, those of rank 0 included.

    `turns` reserves a number of turns for exchanges among some ranks, and returns the first of
    them. The first failure is the one that is sent to all ranks.
    """

    def __init__(
        self,
        options: RunOptions,
        participants: Sequence[HostParticipant],
        cancellation: Cancellation,
        exchange: Exchange,
        mailbox: Mailbox,
        turns: Callable[[tuple[int, ...], int], int],
    ) -> None:
        self.options = options
        self._participants = participants
        self._cancellation = cancellation
        self._mailbox = mailbox
        self._turns = turns
        self._lock = threading.Lock()
        self._busy: set[int] = set()
        self._is_over = threading.Event()
        self._arrivals = Arrivals(options)
        handle = functools.partial(self.handle, 0)
        self._crossings = Crossings(options, 0, exchange, handle, self._failed)
        self.here = [each for each, rank in enumerate(options.ranks) if rank == 0]
        self.collectives = Rendezvous(
            options.grid,
            options.timeout_seconds,
            is_one_program=options.is_one_program,
            here=self.here,
            across=self._crossings,
        )
        self.failure: BaseException | None = None
        self.results: dict[int, tuple[Literal, Profile]] = {}

    def begin(self, oldest: int) -> None:
        """Let the other ranks start their participants. All runs before `oldest` have ended."""
        try:
            # Under the lock: a rank must know of an execution before it hears of its failure.
            with self._lock:
                for rank in sorted({*self.options.ranks} - {0}):
                    self._mailbox.send(rank, self._start_of(rank, oldest))
                    self._busy.add(rank)
        except XlaError as error:
            self.stop(error)
        if not self._busy:
            self._is_over.set()

    def _start_of(self, rank: int, oldest: int) -> messages.Start:
        jobs = tuple(
            messages.Job(
                number,
                participant.name,
                participant.program.key,
                participant.device,
                tuple(argument.to_literal() for argument in participant.arguments),
            )
            for number, participant in enumerate(self._participants)
            if self.options.ranks[number] == rank
        )
        return messages.Start(self.options, oldest, jobs)

    def wait(self) -> None:
        """Wait until all participants of other ranks have ended."""
        with releasing_slot():
            self._is_over.wait()

    def stop(self, error: BaseException) -> None:
        """Fail all participants with this error, unless there was an earlier one."""
        self._failed(error)
        self._cancellation.cancel(_xla_error(error))

    def lose(self, error: XlaError) -> None:
        """Stop without waiting for other ranks."""
        self.stop(error)
        with self._lock:
            self._busy.clear()
        self._is_over.set()

    def handle(self, rank: int, message: Any) -> None:
        """Handle a rank's message about the execution, without waiting."""
        match message:
            case messages.Arrive(_, visits):
                if not rank:
                    # Messages of the others are about to come.
                    self._mailbox.expect()
                self._arrived(visits)
            case messages.Late(_, key, visit):
                self._late(key, visit)
            case messages.Post():
                self._post(message)
            case messages.Ended(_, number):
                self._ended(rank, number)
            case messages.Failed(_, error):
                self.stop(error)
            case messages.Ask():
                start(lambda: self._mailbox.send(rank, self._reply(message)))
            case messages.Done(_, results):
                self._done(rank, results)

    def _arrived(self, visits: Sequence[messages.Visit]) -> None:
        try:
            with self._lock:
                if self.failure is not None:
                    return
                for visit, key, ranks in self._arrivals.arrive(visits):
                    if visit.turns:
                        turn = self._turns(ranks, visit.turns)
                        self._begin_collective(messages.Go(self.options.run, key, ranks, turn))
        except XlaError as error:
            self.stop(error)

    def _begin_collective(self, go: messages.Go) -> None:
        for rank in go.ranks:
            if rank == 0:
                self._crossings.go(go)
            else:
                self._mailbox.send(rank, go)

    def _late(self, key: messages.RendezvousKey, visit: int) -> None:
        """Fail the run if a visit misses members at its timeout, none of them on a silent rank.

        A silent rank either is lost soon, which is then the error to report, or sends again.
        """
        with self._lock:
            if any(map(self._mailbox.is_silent, self._arrivals.missing_ranks(key, visit))):
                return
            error = self._arrivals.late(key, visit)
        if error is not None:
            self.stop(error)

    def _post(self, message: messages.Post) -> None:
        rank = self.options.ranks[message.collective.members[1]]
        try:
            if rank == 0:
                self.collectives.post(message.collective, message.value)
            else:
                self._mailbox.send(rank, message)
        except XlaError as error:
            self.stop(error)

    def _ended(self, rank: int, number: int) -> None:
        """Record the end of a participant on a rank, also in the rendezvous.

        There, the end of a participant of rank 0 has been recorded already.
        """
        if rank:
            if self.failure is None:
                self._participants[number].ended()
            self.collectives.end(number)
        try:
            with self._lock:
                if self.failure is not None:
                    return
                for each in self._busy - {rank}:
                    self._mailbox.send(each, messages.Ended(self.options.run, number))
                self._arrivals.end(number)
        except XlaError as error:
            self.stop(error)

    def _done(self, rank: int, results: Sequence[tuple[int, Literal, Profile]]) -> None:
        with self._lock:
            self._busy.discard(rank)
            self.results |= {number: (literal, profile) for number, literal, profile in results}
            is_over = not self._busy
        if is_over:
            self._is_over.set()

    def _failed(self, error: BaseException) -> None:
        """Send all ranks a failure, unless there was an earlier one."""
        with self._lock:
            if self.failure is not None:
                return
            self.failure = error
            sent = _xla_error(error)
            self._crossings.fail(sent)
            for rank in self._busy:
                self._mailbox.send(rank, messages.Failed(self.options.run, sent))

    def _reply(self, message: messages.Ask) -> messages.Reply:
        participant = self._participants[message.number]
        methods: Mapping[str, Callable[..., object]] = {
            "take_infeed": participant.feeds.take_infeed,
            "put_outfeed": participant.feeds.put_outfeed,
            "send": participant.channels.send,
            "receive": participant.channels.receive,
        }
        try:
            ask = methods[message.method]
            answer = ask(*message.before, self._cancellation, *message.after)
        except Exception as error:
            answer = reported(error)
        return messages.Reply(self.options.run, message.number, answer)


def _xla_error(error: BaseException) -> XlaError:
    return error if isinstance(error, XlaError) else CancelledError("another participant failed")

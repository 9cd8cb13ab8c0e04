"""Ranks other than 0: they load programs and run participants on request of rank 0."""

import dataclasses
import logging
import queue
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from xla_contract.errors import XlaError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.backends.platform import Backend, Executable, Execution, Profile
from xla_server.distributed.crossings import Crossings
from xla_server.distributed.exchange import Exchange
from xla_server.distributed.transport import messages
from xla_server.distributed.transport.mailbox import Mailbox
from xla_server.distributed.transport.world import World
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.collectives_protocol import ALONE_RUN, Collectives
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.execution.feed_protocol import FeedUse
from xla_server.ops.evaluation import Value
from xla_server.sessions.error_context import copy_of, part_of_request, reported
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.runs.grids.grid_execution import run_participants
from xla_server.sessions.runs.grids.participant_threads import start
from xla_server.sessions.runs.grids.rendezvous import Rendezvous

_LOG = logging.getLogger(__name__)

_CLOSE_SECONDS = 2.0
"""Timeout of a rank's last messages, in seconds; the rank ends even if they are not sent."""


class Follower:
    """A rank other than 0. `run` returns when rank 0 requests it, or is lost."""

    def __init__(
        self, world: World, backend: Backend, limits: Limits, *, threads: int, max_bytes: int
    ) -> None:
        self._world = world
        self._backend = backend
        self._limits = limits
        self.rank = world.rank
        self._compiling = ThreadPoolExecutor(threads, thread_name_prefix="compile")
        self._programs: dict[bytes, Future[Executable]] = {}
        self._runs: dict[int, _Run] = {}
        self._end: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.exchange = Exchange(world, limits.collective_timeout_seconds, self._broken)
        self._mailbox = Mailbox(
            world,
            (0,),
            self._deliver,
            self._lost,
            progress_parcels=self.exchange.parcels.poll,
            # Rank 0 may be stopped for a while, as in a debugger.
            silence_seconds=float("inf"),
            max_bytes=max_bytes,
        )

    def run(self) -> bool:
        """Handle rank 0's messages until the end; return whether all ranks ended MPI together."""
        self._mailbox.start()
        ends_together = self._end.get()
        self._compiling.shutdown(wait=False, cancel_futures=True)
        if ends_together and self._mailbox.close(_CLOSE_SECONDS):
            self._world.left()
            return True
        return False

    def _lost(self, rank: int, why: str) -> None:
        _LOG.error("rank %d %s", rank, why)
        self._end.put(False)

    def _broken(self, error: XlaError) -> None:
        self.send(messages.Broken(error))

    def _deliver(self, rank: int, message: Any) -> None:
        match message:
            case messages.Load():
                future: Future[Executable] = self._compiling.submit(self._load, message)
                self._programs[message.program.key] = future
            case messages.Unload(key):
                self._programs.pop(key, None)
            case messages.Start():
                self.exchange.parcels.keep_from(message.oldest)
                run = self._runs[message.options.run] = _Run(self, message)
                start(run.execute)
            case messages.Broken(error):
                self.exchange.fail(error)
            case messages.Stop(ends_together):
                self._end.put(ends_together)
            case _:
                found = self._runs.get(message.run)
                if found is not None:
                    found.handle(message)

    def _load(self, message: messages.Load) -> Executable:
        program = dataclasses.replace(message.program, data=message.module.tobytes())
        limits = self._limits
        try:
            partitioned = program.partitioned(limits.max_device_bytes, limits.max_replicated_bytes)
            module = partitioned.module
            layouts = module.entry_program_shape
            executable = self._backend.compile(module, layouts, options=program.options)
        except Exception as error:
            self.send(messages.Loaded(program.key, reported(error)))
            raise
        self.send(messages.Loaded(program.key, None))
        return executable

    # Methods that a run uses.

    def send(self, message: object) -> None:
        """Send a message to rank 0."""
        self._mailbox.send(0, message)

    def ended(self, run: int) -> None:
        """Forget an execution."""
        self.exchange.parcels.end(run)
        del self._runs[run]

    def job(
        self, job: messages.Job, feeds: "_RemoteFeeds"
    ) -> Callable[[Collectives, Cancellation], Execution]:
        """Return the function that runs a participant."""
        program = self._programs[job.key]

        def run(collectives: Collectives, cancellation: Cancellation) -> Execution:
            with part_of_request(job.name):
                executable = program.result()
                arguments = [self._backend.to_device(each, job.device) for each in job.arguments]
                return executable.execute(
                    arguments,
                    device=job.device,
                    options=ExecuteOptions(
                        feeds=feeds,
                        channels=feeds,
                        cancellation=cancellation,
                        collectives=collectives,
                    ),
                )

        return run


class _Run:
    """One execution on this rank."""

    def __init__(self, rank: Follower, message: messages.Start) -> None:
        self._rank = rank
        options = message.options
        self._number = options.run
        self._cancellation = Cancellation()
        self._crossings = Crossings(options, rank.rank, rank.exchange, rank.send, self._failed)
        self._collectives = Rendezvous(
            options.grid,
            options.timeout_seconds,
            is_one_program=options.is_one_program,
            here=[job.number for job in message.jobs],
            across=self._crossings,
        )
        self._is_alone = options.grid.size == 1
        self._feeds = {
            job.number: _RemoteFeeds(rank.send, options.run, job.number) for job in message.jobs
        }
        self._jobs = {job.number: rank.job(job, self._feeds[job.number]) for job in message.jobs}

    def execute(self) -> None:
        """Run the participants of this rank, and report their results to rank 0."""
        results: Mapping[int, Execution] = {}
        try:
            if self._is_alone:
                ((number, job),) = self._jobs.items()
                results = {number: job(ALONE_RUN, self._cancellation)}
            else:
                results = run_participants(self._jobs, self._collectives, self._cancellation)
            self._rank.send(messages.Done(self._number, tuple(map(_result, results.items()))))
        except BaseException as error:  # Rank 0 waits for the report whatever the error was.
            self._failed(error)
            self._rank.send(messages.Done(self._number, ()))
        self._rank.ended(self._number)

    def handle(self, message: Any) -> None:
        """Handle a message of rank 0 about this execution."""
        match message:
            case messages.Go():
                self._crossings.go(message)
            case messages.Failed(_, error):
                self._crossings.fail(error)
                self._cancellation.cancel(error)
            case messages.Post(_, collective, value):
                try:
                    self._collectives.post(collective, value)
                except XlaError as error:
                    self._failed(error)
            case messages.Ended(_, number):
                self._collectives.end(number)
            case messages.Reply(_, number, answer):
                self._feeds[number].answers.put(answer)

    def _failed(self, error: BaseException) -> None:
        self._rank.send(messages.Failed(self._number, reported(error)))


@dataclasses.dataclass
class _RemoteFeeds:
    """The feeds and channels of a participant, which rank 0 has. Implements Feeds and Channels."""

    _send: Callable[[object], None]
    _run: int
    _number: int
    answers: queue.SimpleQueue[Any] = dataclasses.field(default_factory=queue.SimpleQueue)
    """The answer to the last request."""

    def take_infeed(self, shape: Shape, cancellation: Cancellation, use: FeedUse) -> Value:
        """Wait for the next item, as Feeds.take_infeed says."""
        value: Value = self._ask(cancellation, "take_infeed", (shape,), (use,))
        return value

    def put_outfeed(
        self, value: Value, shape: Shape, cancellation: Cancellation, use: FeedUse
    ) -> None:
        """Append an item, as Feeds.put_outfeed says."""
        self._ask(cancellation, "put_outfeed", (value, shape), (use,))

    def send(self, channel_id: int, value: Value, shape: Shape, cancellation: Cancellation) -> None:
        """Put a value on a channel, as Channels.send says."""
        self._ask(cancellation, "send", (channel_id, value, shape))

    def receive(self, channel_id: int, shape: Shape, cancellation: Cancellation) -> Value:
        """Take a value from a channel, as Channels.receive says."""
        value: Value = self._ask(cancellation, "receive", (channel_id, shape))
        return value

    def _ask(
        self,
        cancellation: Cancellation,
        method: str,
        before: tuple[Any, ...],
        after: tuple[Any, ...] = (),
    ) -> Any:
        # Rank 0 answers also when the execution is cancelled.
        self._send(messages.Ask(self._run, self._number, method, before, after))
        answer = self.answers.get()
        if isinstance(answer, XlaError):
            cancellation.check()
            raise copy_of(answer)
        return answer


def _result(item: tuple[int, Execution]) -> tuple[int, Literal, Profile]:
    number, execution = item
    return number, execution.output.to_literal(), execution.profile

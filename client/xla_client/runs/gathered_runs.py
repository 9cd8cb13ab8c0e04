"""Several runs of one executable in one message: those of `run_batch`, and those of coroutines.

A message of RunBatch costs little more than one of Run. Coroutines share one if they begin runs in
one iteration of the event loop, so that `asyncio.gather` of many is as fast as `run_batch`. Each
run has its own outcome; all that were sent together are answered together.
"""

import abc
import asyncio
import contextlib
import copy
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from xla_client.coercion.parameters import arguments_of_run
from xla_client.runs import run_request
from xla_client.runs.arguments import Argument, without_executions
from xla_client.runs.donation import donated_in_batch
from xla_client.session.public_methods import public
from xla_client.session.session import Session
from xla_client.transport.errors import error_of_status
from xla_contract.errors import XlaError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.wire.varint import encode_varint

if TYPE_CHECKING:
    from xla_contract.types.shape import ProgramShape

_BATCH = 128
"""Largest number of runs of `run_batch` in one message."""

_FAULTS = XlaError, TypeError, ValueError
"""Errors that concern a single run of a batch, those of its arguments included."""

MAX_RUNS = 64
"""Largest number of coroutines' runs in one message, as their responses arrive together."""

_RUNS_TAG = encode_varint(extension_pb2.RunBatchRequest.RUNS_FIELD_NUMBER << 3 | 2)
"""The tag of each run in a serialized RunBatchRequest: its field number, with a length."""

_Waiting: TypeAlias = "list[tuple[bytes, asyncio.Future[Any]]]"


class GatheredRuns:
    """The runs of one executable that wait to be sent, for each event loop."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Waiting] = (
            weakref.WeakKeyDictionary()
        )

    async def run(self, request: bytes) -> extension_pb2.RunResult:
        """Run a serialized RunRequest of one step; return its result. Raises XlaError."""
        loop = asyncio.get_running_loop()
        waiting = self._waiting.setdefault(loop, [])
        future: asyncio.Future[Any] = loop.create_future()
        waiting.append((request, future))
        if len(waiting) == 1:
            loop.call_soon(self._send, loop)
        elif len(waiting) == MAX_RUNS:
            self._send(loop)
        result: extension_pb2.RunResult = await future
        return result

    def _send(self, loop: asyncio.AbstractEventLoop) -> None:
        """Send the waiting runs, if there are any left."""
        waiting = self._waiting.pop(loop, [])
        runs = [each for each in waiting if not each[1].done()]
        if not runs:
            return
        futures = [future for _, future in runs]
        try:
            if len(runs) == 1:
                pending = self._session.start("Run", runs[0][0])
            else:
                parts = (_RUNS_TAG + encode_varint(len(data)) + data for data, _ in runs)
                pending = self._session.start("RunBatch", b"".join(parts))
        except XlaError as error:
            _fail(futures, error)
            return

        def notify() -> None:
            # The loop of an abandoned coroutine may be closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, futures, pending)

        def stop_if_alone(_: object) -> None:
            if all(future.cancelled() for future in futures):
                pending.cancel()

        for future in futures:
            future.add_done_callback(stop_if_alone)
        pending.add_done_callback(notify)


def _settle(futures: "list[asyncio.Future[Any]]", pending: Any) -> None:
    """Set the outcome of each run."""
    try:
        response = pending.result()
    except XlaError as error:
        _fail(futures, error)
        return
    if isinstance(response, extension_pb2.RunResponse):
        _resolve(futures[0], response.results[0])
        return
    for future, outcome in zip(futures, response.outcomes, strict=True):
        if outcome.WhichOneof("outcome") == "status":
            _fail([future], error_of_status("RunBatch", outcome.status))
        else:
            _resolve(future, outcome.response.results[0])


def _resolve(future: "asyncio.Future[Any]", result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(futures: "list[asyncio.Future[Any]]", error: XlaError) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(copy.copy(error))


class BatchedRuns(abc.ABC):
    """The method of `Executable` that runs it several times."""

    _session: Session
    _program_shape: "ProgramShape"

    @property
    @abc.abstractmethod
    def donated_parameters(self) -> frozenset[int]:
        """The parameters that the module donates by itself."""

    @abc.abstractmethod
    def step(
        self, arguments: Sequence[Argument], donate: Sequence[int], timeout: float | None
    ) -> run_request.RunStepMessage:
        """The step of a run of this program, as from `run_request.make_step`."""

    @abc.abstractmethod
    def run(
        self,
        *arguments: Argument,
        donate: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Return the fetched result of a run."""

    @public
    def run_batch(
        self,
        batch: Sequence[Sequence[Argument]],
        *,
        return_exceptions: bool = False,
        timeout: float | None = None,
    ) -> list[Any]:
        """Run the program on several lists of arguments at the same time.

        Buffers that occur once in the batch are donated for the parameters that the module permits.

        Args:
            batch: The arguments of each run, as lists or tuples.
            return_exceptions: Whether each error replaces its result, instead of the first error
                being raised.
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Returns:
            The result of each run, as of `run`.

        Raises:
            InvalidArgumentError: An argument, which is named, does not fit its parameter.
            XlaError: A run failed.
        """
        outcomes: list[Any] = []
        converted = [_converted(each) for each in batch]
        passed = list(
            zip(converted, donated_in_batch(self.donated_parameters, converted), strict=True)
        )
        has_run = extension_pb2.CAPABILITY_RUN in self._session.transport.capabilities
        if has_run and self._program_shape.result.byte_size <= run_request.FETCH_BYTES:
            for first in range(0, len(batch), _BATCH):
                part = passed[first : first + _BATCH]
                steps = [self._batch_step(*each, timeout) for each in part]
                if not return_exceptions:
                    _raise_first(steps)
                outcomes += self._run_steps(steps, timeout)
        else:
            outcomes += [self._outcome(*each, timeout) for each in passed]
        if not return_exceptions:
            _raise_first(outcomes)
        return outcomes

    def _batch_step(
        self, passed: list[Argument] | Exception, donate: Sequence[int], timeout: float | None
    ) -> run_request.RunStepMessage | Exception:
        """The step of one run of a batch, or the error of arguments that do not fit."""
        if isinstance(passed, Exception):
            return passed
        try:
            step = self.step(passed, donate, timeout)
        except _FAULTS as error:
            return error
        run_request.fetch(step.message, self._program_shape.result)
        return step

    def _run_steps(
        self, steps: Sequence[run_request.RunStepMessage | Exception], timeout: float | None
    ) -> list[Any]:
        """Run steps in one message and return their outcomes; an error among them stays one."""
        outcomes: list[Any] = list(steps)
        fit = [
            (number, step)
            for number, step in enumerate(steps)
            if isinstance(step, run_request.RunStepMessage)
        ]
        if not fit:
            return outcomes
        request = extension_pb2.RunBatchRequest(runs=[step.request for _, step in fit])
        response = self._session.call("RunBatch", request, timeout)
        for (number, step), each in zip(fit, response.outcomes, strict=True):
            step.end_donation(is_freed=False)
            if each.WhichOneof("outcome") == "status":
                outcomes[number] = error_of_status("RunBatch", each.status)
            else:
                outcomes[number] = run_request.fetched(each.response.results[0].value)
        return outcomes

    def _outcome(
        self, passed: list[Argument] | Exception, donate: Sequence[int], timeout: float | None
    ) -> Any:
        if isinstance(passed, Exception):
            return passed
        try:
            return self.run(*passed, donate=donate, timeout=timeout)
        except _FAULTS as error:
            return error


def _converted(arguments: Any) -> list[Argument] | Exception:
    """Return the arguments of one run of a batch, or the error of what are none."""
    try:
        return without_executions(arguments_of_run("each entry of batch", arguments))
    except _FAULTS as error:
        return error


def _raise_first(outcomes: Sequence[Any]) -> None:
    """Raise the first error among outcomes, if there is one."""
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome

"""Executions that no call waits for: launched ones, and those of a batch.

A launched execution has handles for its outputs before it has begun. Executions that name them
begin when the outputs are computed: they are chained by callbacks, and no thread waits. On a
platform that launches work asynchronously they begin when the outputs are launched, and the device
executes them afterwards. Those that fail make them fail, with the same error.
"""

import contextlib
import dataclasses
import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from xla_contract.errors import CancelledError, InvalidArgumentError, NotFoundError, XlaError
from xla_server.backends.platform import Buffer, Profile
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.cancellation_set import CancellationSet
from xla_server.execution.completion import Completion
from xla_server.sessions.error_context import copy_of, reported, with_context
from xla_server.sessions.limits.semaphores import FairSemaphore
from xla_server.sessions.runs.grids.grid_runner import GridRunner
from xla_server.sessions.runs.memory_queue import Outcome
from xla_server.sessions.runs.planner import plan_run
from xla_server.sessions.runs.requests import RunRequest
from xla_server.sessions.runs.run import PlannedRun, StepOutcome
from xla_server.sessions.runs.run_outputs import StepOutput
from xla_server.sessions.values.futures import ValueFuture, ValuePendingError
from xla_server.sessions.values.handles import HandleTable
from xla_server.sessions.values.value_table import Reservation, ValueTable


class LaunchedExecution(Completion):
    """A launched run, from its launch until it is forgotten."""

    def __init__(self, run: PlannedRun) -> None:
        super().__init__()
        self.run = run
        self.name = run.name
        self.handle = 0
        self.cancellation = Cancellation()
        self.outputs: list[list[int]] = []
        """The handles of the kept values, step by step."""
        self.expected: list[tuple[int, ValueFuture]] = []
        self.error: XlaError | None = None
        self.profile = Profile()
        self._claim = threading.Lock()

    @property
    def subject(self) -> str:
        """The execution in messages of errors."""
        return f"execution {self.handle} of {self.name}"

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when all arguments are launched or computed, or have failed."""
        pending = self.run.pending
        # Counting is one step, so no lock.
        there = itertools.count()

        def one_more() -> None:
            if next(there) == len(pending):
                callback()

        for value in pending:
            value.when_launched(one_more)
        one_more()

    def claim(self) -> bool:
        """Return whether the caller, as the first, must end the execution: run it or fail it."""
        return self._claim.acquire(blocking=False)


@dataclasses.dataclass(eq=False)
class BackgroundExecutions:
    """The launched executions of one session. Thread-safe."""

    _grids: GridRunner
    _values: ValueTable
    handles: HandleTable[LaunchedExecution]
    _running: FairSemaphore
    _launched: FairSemaphore
    _active: CancellationSet
    _submit: Callable[..., Any]
    """`submit(do, *arguments)` calls `do` in a thread for executions, in the session's turn."""

    def __len__(self) -> int:
        return self._launched.used

    def launch(self, request: RunRequest) -> LaunchedExecution:
        """Start a run and return; its outputs have handles at once.

        Raises as `plan_run`, InvalidArgumentError for results to be sent back, and
        ResourceExhaustedError when the session has launched too many.
        """
        for number, step in enumerate(request.steps):
            parts = [part.fetch_bytes for part in step.output.parts]
            for fetch_bytes in (step.output.fetch_bytes, *parts):
                if fetch_bytes:
                    raise InvalidArgumentError(
                        "nothing waits for results of a launched run to be sent back, so "
                        f"fetch_bytes must be 0, got {fetch_bytes} in step {number}"
                    )
        with contextlib.ExitStack() as undo:
            run = plan_run(self._grids, request)
            undo.callback(run.close)
            self._launched.acquire()
            undo.callback(self._launched.release)
            execution = LaunchedExecution(run)
            # Before it is listed: a listing of the session shows the execution with its outputs.
            self._expect_outputs(execution)
            undo.callback(self._drop, execution)
            run.label = execution.handle = self.handles.add(execution)
            run.free_donated()
            run.on_launch = functools.partial(self._on_launch, execution)
            undo.pop_all()
        self._active.add(execution.cancellation)
        execution.cancellation.add_callback(lambda: self._on_cancel(execution))
        execution.when_ready(lambda: self._begin(execution))
        return execution

    def wait(self, handle: int) -> tuple[int | None, Profile]:
        """Return the first kept output, if any, and the cost of an ended execution, and forget it.

        Raises ValuePendingError for one that has not ended, the error of one that failed,
        NotFoundError for an unknown handle.
        """
        execution = self.get(handle)
        if not execution.is_done:
            raise ValuePendingError(execution, execution.subject)
        self.forget(handle)
        kept = [output for outputs in execution.outputs for output in outputs]
        if execution.error is not None:
            self._values.note_fetched(kept)
            raise copy_of(execution.error)
        return kept[0] if kept else None, execution.profile

    def cancel(self, handle: int) -> bool:
        """Cancel an execution; False if it had ended. NotFoundError for an unknown handle."""
        execution = self.get(handle)
        if execution.is_done:
            return False
        return execution.cancellation.cancel(CancelledError("CancelExecution was called"))

    def forget(self, handle: int) -> None:
        """Forget an execution, which keeps running; NotFoundError for an unknown handle."""
        try:
            self.handles.remove(handle)
        except (InvalidArgumentError, NotFoundError):
            raise _no_execution(handle) from None

    def close(self) -> None:
        """Cancel all."""
        for execution in self.handles.close():
            execution.cancellation.cancel(CancelledError("the session was closed"))

    def _expect_outputs(self, execution: LaunchedExecution) -> None:
        shapes = [step.output.shapes(step.result) for step in execution.run.steps]
        execution.expected = self._values.expect(
            [one for each in shapes for one in each], execution.name
        )
        handles = iter([handle for handle, _ in execution.expected])
        execution.outputs = [[next(handles) for _ in each] for each in shapes]

    def _drop(self, execution: LaunchedExecution) -> None:
        # The end of the session may have freed them.
        with contextlib.suppress(XlaError):
            self._values.remove_all([handle for handle, _ in execution.expected])
        with contextlib.suppress(XlaError):
            self.forget(execution.handle)

    def get(self, handle: int) -> LaunchedExecution:
        """An execution that was not forgotten; NotFoundError for an unknown handle."""
        try:
            return self.handles.get(handle)
        except (InvalidArgumentError, NotFoundError):
            raise _no_execution(handle) from None

    def _begin(self, execution: LaunchedExecution) -> None:
        """Enqueue an execution, and cancel it once one that computes its arguments fails."""
        for value in execution.run.pending:
            if not value.is_done:
                value.when_done(functools.partial(_cancel_with, execution, value))
        self._enqueue(execution)

    def _enqueue(self, execution: LaunchedExecution, memory: Outcome = None) -> None:
        self._running.acquire_async(lambda: self._submit(self._run, execution, memory))

    def _on_cancel(self, execution: LaunchedExecution) -> None:
        # A running execution polls its cancellation.
        if execution.claim():
            self._submit(self._fail_unrun, execution)

    def _fail_unrun(self, execution: LaunchedExecution) -> None:
        error = execution.cancellation.error
        assert error is not None, "it was cancelled"
        failed = _first_error(execution.run.pending)
        self._end(execution, failed or self._named(execution, error))
        execution.finish()

    def _on_launch(self, execution: LaunchedExecution, output: StepOutput, result: Buffer) -> None:
        for (handle, pending), one in zip(execution.expected, output.buffers(result), strict=True):
            self._values.launch(handle, pending, one)

    def _run(self, execution: LaunchedExecution, memory: Outcome) -> None:
        """Run an execution that has a slot; it releases the slot before its end is reported.

        An execution that has to wait for memory gives the slot back, too, and is run again with
        `memory`, or the error that it got instead.
        """
        producers = execution.run.pending
        error = None if memory else _first_error(producers)
        reservation: Reservation | None = None
        try:
            if error is None:
                try:
                    if isinstance(memory, XlaError):
                        raise memory
                    reservation = memory or self._enter(execution)
                    if reservation is None:
                        return
                except BaseException as caught:
                    error = self._named(execution, caught)
            if not execution.claim():
                return
            if reservation is not None:
                try:
                    with execution.run.executing(execution.cancellation, reservation) as outcomes:
                        execution.run.close()
                        error = _awaited_error(producers)
                        if error is None:
                            self._keep(execution, outcomes)
                except BaseException as caught:
                    # For any exception: other executions wait for the outputs.
                    error = _awaited_error(producers) or self._named(execution, caught)
            self._end(execution, error)
        finally:
            if reservation is not None:
                reservation.release()
            self._running.release()
        execution.finish()

    def _enter(self, execution: LaunchedExecution) -> Reservation | None:
        """Reserve memory for an execution; None if it waits, after which it is submitted again."""

        def on_left(outcome: Outcome) -> None:
            # The caller that cancelled the execution ends it.
            if outcome is not None:
                self._enqueue(execution, outcome)

        entered = execution.run.enter(on_left)
        if isinstance(entered, Reservation):
            return entered
        execution.cancellation.add_callback(entered)
        return None

    def _keep(self, execution: LaunchedExecution, outcomes: list[StepOutcome]) -> None:
        execution.profile = _total([outcome.profile for outcome in outcomes])
        buffers = [buffer for outcome in outcomes for buffer in outcome.kept]
        for (handle, pending), buffer in zip(execution.expected, buffers, strict=True):
            self._values.fulfil(handle, pending, buffer)

    def _end(self, execution: LaunchedExecution, error: XlaError | None) -> None:
        """Release all resources of an execution but its slot; `finish` wakes its waiters."""
        execution.run.close()
        execution.error = error
        if error is not None:
            for handle, pending in execution.expected:
                self._values.fail(handle, pending, error)
        # The values stay with their handles and with the executions that wait for them.
        execution.expected = []
        self._launched.release()
        self._active.discard(execution.cancellation)

    def _named(self, execution: LaunchedExecution, error: BaseException) -> XlaError:
        """The error, with the execution's name in front."""
        return with_context(execution.subject, reported(error))


def _no_execution(handle: int) -> NotFoundError:
    return NotFoundError(
        f"the handle of an execution of this session is needed, got {handle}, which is none or "
        "was waited for before"
    )


def _first_error(values: Sequence[ValueFuture]) -> XlaError | None:
    """The error of the execution that failed before: it is reported unchanged."""
    for value in values:
        if value.error is not None:
            return value.error
    return None


def _cancel_with(execution: LaunchedExecution, value: ValueFuture) -> None:
    """Cancel an execution if the value, which is an argument of it, has failed."""
    if value.error is not None:
        execution.cancellation.cancel(value.error)


def _awaited_error(values: Sequence[ValueFuture]) -> XlaError | None:
    """Wait until the executions that compute values have ended; return their first error.

    The device has executed what they have launched, or nothing was launched.
    """
    for value in values:
        if not value.is_done:
            ended = threading.Event()
            value.when_done(ended.set)
            ended.wait()
    return _first_error(values)


def _total(profiles: list[Profile]) -> Profile:
    """One profile: the sum of the steps' costs."""
    hits, *costs = zip(*profiles, strict=True)
    return Profile(all(hits), *map(sum, costs))

"""The calls in progress, and the cancellation of each."""

import contextlib
from collections.abc import Callable, Iterator

import grpc

from xla_contract.errors import CancelledError, DeadlineExceededError, UnavailableError, XlaError
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.cancellation_set import CancellationSet
from xla_server.rpc.calls.completion import at_end
from xla_server.rpc.metadata import Metadata


class ActiveCalls:
    """Every call while it runs. Thread-safe."""

    def __init__(self) -> None:
        self._running = CancellationSet()
        self._open: set[Cancellation] = set()
        self._serves_others: dict[Cancellation, Callable[[], bool]] = {}
        self._answers: dict[Cancellation, Callable[[XlaError], object]] = {}
        self.are_refused = False
        """True if new calls are refused."""
        self.refused_at = 0.0
        """Time of the last refusal, by the monotonic clock."""
        self.is_served: Callable[[str, Metadata | None], bool] = lambda path, metadata: False
        """Returns whether a call of an rpc, with these headers, is served although calls are
        refused."""

    def __len__(self) -> int:
        return len(self._running)

    @contextlib.contextmanager
    def running(self, context: grpc.ServicerContext) -> Iterator[Cancellation]:
        """A cancellation that fires if the client leaves, at the deadline, or at `cancel_all`."""
        cancellation = self.begin(context)
        try:
            yield cancellation
        finally:
            self.end(cancellation)

    def begin(self, context: grpc.ServicerContext) -> Cancellation:
        """Begin a call as `running` does; `end` ends it."""
        cancellation = Cancellation()
        running, opened = self._running, self._open
        opened.add(cancellation)
        running.add(cancellation)

        def on_end() -> None:
            opened.discard(cancellation)
            # grpc reports the end of every call; an answered one needs no cancellation.
            if cancellation in running:
                cancellation.cancel(_gone(context))

        at_end(context, on_end)
        return cancellation

    def end(self, cancellation: Cancellation) -> None:
        """End what `begin` began."""
        self._running.discard(cancellation)
        self._serves_others.pop(cancellation, None)
        self._answers.pop(cancellation, None)

    def note_answer(self, cancellation: Cancellation, fail: Callable[[XlaError], object]) -> None:
        """Register `fail`, which ends a call in progress while its thread is busy."""
        self._answers[cancellation] = fail

    def end_busy(self) -> int:
        """End all calls with a registered `fail`, whose threads are busy; return how many."""
        answers = list(self._answers.values())
        for fail in answers:
            fail(shutting_down())
        return len(answers)

    def note_serving_others(self, cancellation: Cancellation, is_idle: Callable[[], bool]) -> None:
        """Mark a call in progress that only waits for other calls while `is_idle` returns True."""
        self._serves_others[cancellation] = is_idle

    def left_alone(self) -> list[Cancellation]:
        """All calls in progress, if each of them waits for others; else none."""
        running = list(self._running)
        return (
            running
            if all(self._serves_others.get(call, lambda: False)() for call in running)
            else []
        )

    def are_over(self) -> bool:
        """Return whether no call is in progress, and no client waits for a response."""
        return not self._running and not self._open

    def cancel_all(self) -> None:
        """Cancel all calls, also later ones, with UnavailableError."""
        self._running.cancel_all(shutting_down())


def _gone(context: grpc.ServicerContext) -> CancelledError | DeadlineExceededError:
    remaining = context.time_remaining()
    if remaining is not None and remaining <= 0:
        return DeadlineExceededError("the deadline of the call passed before it finished")
    return CancelledError("the client gave the call up")


def shutting_down(kind: type[UnavailableError] = UnavailableError) -> UnavailableError:
    """Return the error of calls that are refused, or ended, because the server shuts down."""
    return kind(
        "the server is shutting down and ended the call",
        hint="Call again when it is back, or on another server.",
    )

"""The calls in progress, and the wish of each that it stops."""

import contextlib
from collections.abc import Iterator

import grpc

from xla_contract.errors import CancelledError, DeadlineExceededError, UnavailableError
from xla_server.evaluator.cancellation import Cancellation


class Calls:
    """Every call while it runs. Any thread may use it."""

    def __init__(self) -> None:
        self._running: set[Cancellation] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._running)

    @contextlib.contextmanager
    def running(self, context: grpc.ServicerContext) -> Iterator[Cancellation]:
        """A cancellation set when the client leaves, the deadline passes, or at `cancel_all`."""
        cancellation = self.begin(context)
        try:
            yield cancellation
        finally:
            self.end(cancellation)

    def begin(self, context: grpc.ServicerContext) -> Cancellation:
        """As `running`, until `end`."""
        cancellation = Cancellation()
        running = self._running
        # One step each, so no lock: `cancel_all` says that it has begun before it looks at the set.
        running.add(cancellation)
        if self._closed:
            cancellation.cancel(shutting_down())

        def on_end() -> None:
            # grpc tells of the end of every call; one that has been answered needs no word.
            if cancellation in running:
                cancellation.cancel(_gone(context))

        if not context.add_callback(on_end):
            on_end()
        return cancellation

    def end(self, cancellation: Cancellation) -> None:
        """End what `begin` began."""
        self._running.discard(cancellation)

    def cancel_all(self) -> int:
        """End all calls, also those that come later, with UnavailableError; gives how many."""
        self._closed = True
        running = list(self._running)
        for cancellation in running:
            cancellation.cancel(shutting_down())
        return len(running)


def _gone(context: grpc.ServicerContext) -> CancelledError | DeadlineExceededError:
    remaining = context.time_remaining()
    if remaining is not None and remaining <= 0:
        return DeadlineExceededError("the deadline of the call passed before it finished")
    return CancelledError("the client gave the call up")


def shutting_down() -> UnavailableError:
    """What calls are told that the server does not finish, or begin, any more."""
    return UnavailableError(
        "the server is shutting down and ended the call", hint="Call again on another server."
    )

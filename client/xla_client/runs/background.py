"""Background threads for runs on servers that cannot launch them."""

import threading
from collections.abc import Callable
from typing import Any

from xla_client.runs.execution import Execution, ExecutionProfile
from xla_client.transport.transport import Pending
from xla_contract.errors import CancelledError, UnimplementedError, XlaError


class CallSequence:
    """A sequence of calls that one thread makes and any thread may stop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_stopped = False
        self._pending: Pending[Any] | None = None
        self.profile = ExecutionProfile()
        """The cost of the run, if `work` knows it."""

    def result(self, start: Callable[[], Pending[Any]]) -> Any:
        """Make the next call, return its response; raises XlaError, CancelledError once stopped."""
        with self._lock:
            if self._is_stopped:
                raise CancelledError("the run must go on to make its next call, got its end")
            self._pending = pending = start()
        return pending.result()

    def stop(self) -> None:
        """Cancel the call in progress, and make no more."""
        with self._lock:
            self._is_stopped = True
            pending = self._pending
        if pending is not None:
            pending.cancel()


class BackgroundExecution(Execution[Any]):
    """A run whose calls are made in a thread of its own: `work` makes them and returns the result.

    For servers that cannot launch the run: it has no handle, and buffers when it has ended.
    """

    def __init__(self, work: Callable[[CallSequence], Any]) -> None:
        super().__init__()
        self._calling = CallSequence()
        threading.Thread(target=self._run, args=(work,), name="xla-run", daemon=True).start()

    @property
    def handle(self) -> int:
        """There is none; raises UnimplementedError."""
        raise UnimplementedError(
            "the server must be able to launch executions to give handles for them, got one that "
            "cannot",
            op="Launch",
        )

    @property
    def buffers(self) -> Any:
        """The result; waits for it."""
        return self.result()

    def _watch(self) -> None:
        """The future is set whether or not a thread waits for it."""

    def cancel(self) -> bool:
        """Stop the run; False if it had finished before."""
        if self._future.done():
            return False
        self._calling.stop()
        return True

    def _run(self, work: Callable[[CallSequence], Any]) -> None:
        try:
            result = work(self._calling)
        except XlaError as error:
            self._future.set_exception(error)
        except BaseException as error:  # An internal error must reach the waiting thread, too.
            self._future.set_exception(error)
            raise
        else:
            self._profile = self._calling.profile
            self._future.set_result(result)

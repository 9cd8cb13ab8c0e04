"""The launched executions of all sessions, from their launch to their end."""

import threading

from xla_contract.errors import XlaError
from xla_server.execution.cancellation import Cancellation


class ActiveExecutions:
    """Every execution that was launched and has not ended. Thread-safe."""

    def __init__(self) -> None:
        self._running: set[Cancellation] = set()
        self._refusal: XlaError | None = None
        self._lock = threading.Lock()

    @property
    def value(self) -> int:
        """The number of active executions."""
        return len(self._running)

    def begin(self, cancellation: Cancellation) -> None:
        """Count an execution until `end`; cancel it at once if `cancel_all` was called."""
        with self._lock:
            self._running.add(cancellation)
            refusal = self._refusal
        if refusal is not None:
            cancellation.cancel(refusal)

    def end(self, cancellation: Cancellation) -> None:
        """End what `begin` began."""
        with self._lock:
            self._running.discard(cancellation)

    def cancel_all(self, error: XlaError) -> int:
        """Cancel all executions with an error, also later ones; return how many are active."""
        with self._lock:
            self._refusal = error
            running = list(self._running)
        for cancellation in running:
            cancellation.cancel(error)
        return len(running)

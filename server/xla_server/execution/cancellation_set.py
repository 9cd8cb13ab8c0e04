"""The calls or executions in progress, and the cancellation of all of them."""

from collections.abc import Iterator

from xla_contract.errors import XlaError
from xla_server.execution.cancellation import Cancellation


class CancellationSet:
    """The cancellations of what is in progress. Thread-safe."""

    def __init__(self) -> None:
        self._active: set[Cancellation] = set()
        self._error: XlaError | None = None

    def __len__(self) -> int:
        return len(self._active)

    def __contains__(self, cancellation: Cancellation) -> bool:
        return cancellation in self._active

    def __iter__(self) -> Iterator[Cancellation]:
        return iter(list(self._active))

    def add(self, cancellation: Cancellation) -> None:
        """Add a cancellation until `discard`; cancel it at once if `cancel_all` was called."""
        # Each operation is atomic, so no lock: `cancel_all` sets the error before it reads the set.
        self._active.add(cancellation)
        if self._error is not None:
            cancellation.cancel(self._error)

    def discard(self, cancellation: Cancellation) -> None:
        """Remove a cancellation; no effect if it is absent."""
        self._active.discard(cancellation)

    def cancel_all(self, error: XlaError) -> None:
        """Cancel all with an error, and those that are added later."""
        self._error = error
        for cancellation in self:
            cancellation.cancel(error)

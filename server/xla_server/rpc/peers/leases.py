"""The credentials of streams: a stream ends when its credentials expire or are removed."""

import contextlib
import dataclasses
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator

import grpc

from xla_contract.errors import XlaError
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.start_thread import start
from xla_server.identity.identity import Identity
from xla_server.rpc.peers.gate import Gate

_LOG = logging.getLogger(__name__)

ROUND_SECONDS = 1.0
"""Seconds between two readings of credential files: how long a removed one still works."""


@dataclasses.dataclass(slots=True, eq=False)
class Lease:
    """The credentials of one stream, as of the last check."""

    identity: Identity
    admit: Callable[[], Identity]
    """Checks the credentials again; raises as `Gate.admit`."""
    cancellation: Cancellation


class Leases:
    """The leases of a server's streams, and the thread that ends them. Thread-safe."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._leases: set[Lease] = set()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._watch, name="credentials", daemon=True)

    @contextlib.contextmanager
    def holding(
        self, context: grpc.ServicerContext, path: str, cancellation: Cancellation
    ) -> Iterator[Lease]:
        """End a stream when its credentials no longer let it in, until the block ends.

        Its cancellation is then set with UnauthenticatedError, or PermissionDeniedError. Raises as
        `Gate.admit`.
        """
        admit = functools.partial(self._gate.admit, context, path)
        lease = Lease(admit(), admit, cancellation)
        with self._changed:
            self._leases.add(lease)
            self._changed.notify()
        try:
            yield lease
        finally:
            with self._changed:
                self._leases.discard(lease)

    def start(self) -> None:
        """Begin to watch."""
        start(self._thread)

    def close(self) -> None:
        """Stop watching; no effect if it has not begun."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def recheck(self) -> None:
        """Read files that changed, and end streams whose credentials no longer let them in."""
        has_changed = self._gate.authenticator.refresh()
        now = time.time()
        with self._changed:
            leases = [
                lease for lease in self._leases if has_changed or lease.identity.expires_at <= now
            ]
        for lease in leases:
            try:
                lease.identity = lease.admit()
            except XlaError as error:
                _LOG.info("a stream of %s ends: %s", lease.identity.name, error)
                lease.cancellation.cancel(error)
                with self._changed:
                    self._leases.discard(lease)

    def _watch(self) -> None:
        while True:
            with self._changed:
                if self._is_closed:
                    return
                self._changed.wait(self._pause())
            try:
                self.recheck()
            except Exception:
                # A round that fails, perhaps for lack of descriptors, must not be the last.
                _LOG.exception("looking at credentials failed")

    def _pause(self) -> float | None:
        """Seconds until a lease may have changed; None for never. Under the lock."""
        pauses = [ROUND_SECONDS] if self._gate.authenticator.has_files else []
        now = time.time()
        pauses += [
            # The clock may be set: no pause is longer than a round.
            min(ROUND_SECONDS, max(0.0, lease.identity.expires_at - now))
            for lease in self._leases
            if lease.identity.expires_at < float("inf")
        ]
        return min(pauses, default=None)

"""Detection of disconnected clients: ended connections and expired sessions."""

import logging
import threading

from xla_server.execution.start_thread import start_thread
from xla_server.rpc.peers.connections import Connections
from xla_server.sessions.session_registry import SessionRegistry

_LOG = logging.getLogger(__name__)

_ROUND_SECONDS = 1.0
"""Longest time between two rounds, in seconds, for which state of lost clients takes memory."""

_SHORTEST_ROUND_SECONDS = 0.1
"""Shortest time between two rounds, in seconds, however short the grace period is."""


class SessionReaper:
    """Ends expired sessions, periodically in a thread of its own, until `close`."""

    def __init__(self, sessions: SessionRegistry, connections: Connections) -> None:
        self._sessions = sessions
        self._connections = connections
        self._closed = threading.Event()
        limits = sessions.engine.limits
        quarter = min(sessions.grace_seconds, limits.upload_silence_seconds) / 4
        self._round = min(_ROUND_SECONDS, max(_SHORTEST_ROUND_SECONDS, quarter))
        self._thread = start_thread(self._watch, "sessions")

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(self._round):
            try:
                ended = self._sessions.expire(self._connections.when_asked())
            except Exception:
                # A round that fails, perhaps for lack of memory, must not be the last.
                _LOG.exception("looking for sessions that ended failed")
                continue
            if ended:
                _LOG.info("ended %d sessions whose clients have gone", ended)

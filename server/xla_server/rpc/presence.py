"""Noticing that clients have gone: connections that are no more, sessions whose time is over."""

import collections
import logging
import threading

import psutil

from xla_server.rpc.peers import address, tcp_address
from xla_server.sessions.registry import SessionRegistry

_LOG = logging.getLogger(__name__)

_ROUND_SECONDS = 5.0
_SHORTEST_ROUND_SECONDS = 0.1


class Presence:
    """Ends sessions in a thread of its own, from time to time, until `close`."""

    def __init__(self, sessions: SessionRegistry) -> None:
        self._sessions = sessions
        self._closed = threading.Event()
        quarter = sessions.grace_seconds / 4
        self._round = min(_ROUND_SECONDS, max(_SHORTEST_ROUND_SECONDS, quarter))
        self._thread = threading.Thread(target=self._watch, name="sessions", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(self._round):
            try:
                ended = self._sessions.expire(Connections())
            except Exception:
                # One round that fails, for want of descriptors perhaps, must not be the last.
                _LOG.exception("looking for sessions that ended failed")
                continue
            if ended:
                _LOG.info("ended %d sessions whose clients have gone", ended)


class Connections:
    """The connections of this process, read from the system when first asked about."""

    def __init__(self) -> None:
        self._peers: set[str] | None = None

    def __call__(self, peer: str) -> bool:
        """Whether a peer, as grpc names it, is connected; True for what cannot be told.

        All clients of a unix socket have one name: they are there as long as one of them is.
        """
        if self._peers is None:
            self._peers = _connected_peers()
        if peer.startswith("unix:"):
            return "unix" in self._peers
        found = tcp_address(peer)
        return found is None or found in self._peers


def _connected_peers() -> set[str]:
    process = psutil.Process()
    peers = {
        address(each.raddr.ip, each.raddr.port)
        for each in process.net_connections(kind="tcp")
        if each.raddr and each.status != psutil.CONN_CLOSE_WAIT
    }
    # Accepted unix sockets have the path of the one that listens.
    paths = collections.Counter(each.laddr for each in process.net_connections(kind="unix"))
    if any(count > 1 for path, count in paths.items() if path):
        peers.add("unix")
    return peers

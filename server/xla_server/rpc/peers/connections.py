"""The accepted connections of a grpc server, and the one that a call came over.

grpc tells the server only the address of a call's client. An address does not name a connection. If
the server has several local addresses, two clients may have the same one at the same time, and
another client may have it later. grpc's Channelz numbers the connections of a server and never
reuses a number. It lists a connection while that has a call. The kernel's number of a socket,
SO_COOKIE, is no substitute, as grpc closes the socket first. So if one connection in the list has
the address of a call in progress, the call came over it.
"""

import functools
import json
import logging
import secrets
import threading
from collections.abc import Callable, Iterable
from typing import Any

import grpc

from xla_server.rpc import grpc_internals

_LOG = logging.getLogger(__name__)

_PREFIX = "chttp2 "
"""Prefix of a connection's name in Channelz, before the client's address."""

_UNIX = "unix"
"""All clients of unix sockets have the same address."""

_EMPTY = b'{"end":true,"socketRef":[]}'
"""The usual response to a request for new connections."""


class Connections:
    """Accepted connections of the grpc servers with `server_numbers`, or of all. Thread-safe.

    `is_incremental` states that a connection that is listed later has a higher number.
    """

    def __init__(
        self, server_numbers: Iterable[int] | None = None, *, is_incremental: bool = False
    ) -> None:
        self._servers = None if server_numbers is None else tuple(server_numbers)
        self._channelz = grpc_internals.channelz()
        self._is_incremental = is_incremental
        self._by_peer: dict[str, list[int]] = {}
        self._next_number = 0
        """The first number above those of the connections in `_by_peer`."""
        self._lock = threading.Lock()

    def of(self, peer: str) -> str:
        """Return the name of the connection of a call in progress from `peer`, in grpc's form.

        The name is never reused; empty if several connections match.
        """
        if self._channelz is None or peer.startswith(_UNIX):
            return ""
        with self._lock:
            self._list(is_anew=not self._is_incremental)
            numbers = self._by_peer.get(peer, ())
            if len(numbers) > 1:
                # Some may have ended since they were listed.
                self._list(is_anew=True)
                numbers = self._by_peer.get(peer, ())
        return str(numbers[0]) if len(numbers) == 1 else ""

    def live(self) -> frozenset[str]:
        """Return the names of the open connections, and the addresses of their clients."""
        with self._lock:
            self._list(is_anew=True)
            names = (str(each) for found in self._by_peer.values() for each in found)
            return frozenset((*names, *self._by_peer))

    def when_asked(self) -> Callable[[str], bool]:
        """Return a test for names and addresses in `live`, as of the first call of the test."""
        live = functools.cache(self.live)
        return lambda name: name in live()

    def _list(self, *, is_anew: bool) -> None:
        """List the connections that are new since the last listing, or all. Under the lock."""
        if is_anew:
            self._by_peer.clear()
        start = 0 if is_anew else self._next_number
        servers = _server_numbers(self._channelz) if self._servers is None else self._servers
        self._next_number = max(
            [self._next_number, *(self._add(server, start) for server in servers)]
        )

    def _add(self, server: int, start: int) -> int:
        """List connections with numbers from `start` on; return the first number after them."""
        if self._channelz is None:
            return start
        is_complete = False
        while not is_complete:
            try:
                answer = self._channelz.channelz_get_server_sockets(server, start, 0)
            except ValueError:  # The server has ended.
                return start
            if answer == _EMPTY:
                return start
            listed = json.loads(answer)
            for each in listed.get("socketRef", ()):
                number = int(each["socketId"])
                self._by_peer.setdefault(each["name"].removeprefix(_PREFIX), []).append(number)
                start = max(start, number + 1)
            is_complete = listed.get("end", False)
        return start


_MAKING = threading.Lock()


def connected_server(make: Callable[[], grpc.Server]) -> tuple[grpc.Server, Connections]:
    """Make a grpc server; return it, and the table of the connections that it will accept."""
    channelz = grpc_internals.channelz()
    if channelz is None:
        _LOG.warning("grpc does not list connections: calls must name a session")
        return make(), Connections(())
    target = f"xla-probe-{secrets.token_hex(8)}"
    with _MAKING, grpc.insecure_channel(f"unix:{target}"):
        before = set(_server_numbers(channelz))
        server = make()
        # Other threads may have made servers meanwhile, whose connections do no harm.
        numbers = set(_server_numbers(channelz)) - before
        is_incremental = _is_numbered_after(channelz, target, max(numbers))
        return server, Connections(numbers, is_incremental=is_incremental)


def _server_numbers(channelz: Any) -> list[int]:
    numbers: list[int] = []
    is_complete = False
    while not is_complete:
        start = numbers[-1] + 1 if numbers else 0
        listed = json.loads(channelz.channelz_get_servers(start))
        numbers += sorted(int(each["ref"]["serverId"]) for each in listed.get("server", ()))
        is_complete = listed.get("end", False)
    return numbers


def _is_numbered_after(channelz: Any, target: str, server: int) -> bool:
    """Return whether the channel to `target`, which was made before a server, has a higher number.

    Then grpc gives numbers when it first lists something, and a connection that is listed later has
    a higher number. If grpc gives numbers when something is made, a connection may be listed after
    one that was made later, so new ones cannot be requested by number.
    """
    channels = json.loads(channelz.channelz_get_top_channels(server)).get("channel", ())
    return any(each["data"].get("target", "").endswith(target) for each in channels)

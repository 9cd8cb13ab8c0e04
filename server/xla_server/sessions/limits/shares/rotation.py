"""Selection of items by least recently served identity, then connection, then session.

Each of n identities with items left is served every n-th time, however many items it has. The
connections of one identity share its part in the same way, and so do the sessions of a connection.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from xla_server.sessions.limits.shares.caller import Flow

T = TypeVar("T")


class Rotation:
    """The order in which flows were served. Not thread-safe."""

    def __init__(self) -> None:
        self._served: dict[tuple[str, ...], int] = {}
        """The number of the last selection of each identity, connection and session."""
        self._selections = 0

    def select(
        self,
        items: Iterable[T],
        count: int,
        flow_of: Callable[[T], Flow],
        rank_of: Callable[[T], float],
    ) -> list[T]:
        """Return at most `count` of the items; within a session, those of lowest rank first."""
        if count <= 0:
            return []
        tree: dict[str, dict[str, dict[str, list[T]]]] = {}
        # In reverse, as each session's items are popped from the end.
        for item in sorted(items, key=rank_of, reverse=True):
            identity, connection, session = flow_of(item)
            connections = tree.setdefault(identity, {})
            connections.setdefault(connection, {}).setdefault(session, []).append(item)
        selected: list[T] = []
        while tree and len(selected) < count:
            identity = self._next((), tree)
            connections = tree[identity]
            connection = self._next((identity,), connections)
            sessions = connections[connection]
            session = self._next((identity, connection), sessions)
            selected.append(sessions[session].pop())
            if not sessions[session]:
                del sessions[session]
            if not sessions:
                del connections[connection]
            if not connections:
                del tree[identity]
            self._selections += 1
            for length in (1, 2, 3):
                self._served[(identity, connection, session)[:length]] = self._selections
        return selected

    def forget_others(self, flows: Iterable[Flow]) -> None:
        """Forget all flows but these, which are those with items."""
        kept = {flow[:length] for flow in flows for length in (1, 2, 3)}
        self._served = {key: at for key, at in self._served.items() if key in kept}

    def _next(self, parent: tuple[str, ...], names: dict[str, Any]) -> str:
        served = self._served
        return min(names, key=lambda name: served.get((*parent, name), 0))

"""Graphs: rows of a program that need neither the server nor a predicate, as one launch.

A graph has its addresses in it. Memory of a pool comes back at the same addresses, and the values
of a loop stay where they are: each set of addresses that comes a second time gets a graph.
"""

import collections
from collections.abc import Callable
from typing import Any, TypeAlias

from xla_server.backends.cuda.worker.driver import CapturingDriver
from xla_server.backends.cuda.worker.protocol import DeviceLostError

MAX_GRAPHS = 32
"""Graphs of a program in one stream: each takes memory for every launch that it has."""

MAX_SEEN = 128
"""Sets of addresses that are remembered, to know one that comes again."""

Key: TypeAlias = tuple[int, tuple[int, ...]]
"""The first row of a segment, and the addresses of all slots."""


class Graphs:
    """The graphs of one program in one stream."""

    def __init__(self, driver: CapturingDriver, stream: int) -> None:
        self._driver, self._stream = driver, stream
        self._graphs: collections.OrderedDict[Key, Any] = collections.OrderedDict()
        self._seen: collections.OrderedDict[Key, None] = collections.OrderedDict()
        self._refused: set[int] = set()

    def launch(self, key: Key, walk: Callable[[], None]) -> bool:
        """Launch the graph of a key, which `walk` makes; return False if none is due.

        A segment that the driver cannot capture has no graphs from then on.
        """
        graph = self._graphs.get(key)
        if graph is None:
            if key[0] in self._refused or not self._is_known(key):
                return False
            graph = self._captured(walk)
            if graph is None:
                self._refused.add(key[0])
                return False
            self._graphs[key] = graph
            if len(self._graphs) > MAX_GRAPHS:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(key)
        self._driver.launch_graph(graph, self._stream)
        return True

    def _is_known(self, key: Key) -> bool:
        """Return whether a key was seen before, and remember it."""
        if key in self._seen:
            del self._seen[key]
            return True
        self._seen[key] = None
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        return False

    def _captured(self, walk: Callable[[], None]) -> Any:
        """Return a graph of what `walk` gives the stream; None where the driver refuses."""
        self._driver.begin_capture(self._stream)
        is_refused = False
        try:
            walk()
        except DeviceLostError:
            raise
        except Exception:
            is_refused = True
        try:
            graph = self._driver.end_capture(self._stream)
        except DeviceLostError:
            raise
        except Exception:
            is_refused = True
        return None if is_refused else graph

"""Graphs: the rows of a program that needs neither the server nor predicates, as one launch.

A graph has its addresses in it. Memory of a pool comes back at the same addresses, so a program
that runs again and again has few sets of them, and each set that comes a second time gets a graph.
"""

import collections
import weakref
from collections.abc import Callable
from typing import Any

from xla_server.backends.cuda.worker.driver import CapturingDriver
from xla_server.backends.cuda.worker.protocol import (
    Copy,
    DeviceLostError,
    DeviceProgram,
    Launch,
)

MAX_GRAPHS = 8
"""Graphs of a program in one stream: each takes memory for every launch that it has."""

MAX_SEEN = 64
"""Sets of addresses that are remembered, to know one that comes again."""

Addresses = tuple[int, ...]


class Graphs:
    """The graphs of one program in one stream, by the addresses of its slots."""

    def __init__(self, driver: CapturingDriver, stream: int) -> None:
        self._driver, self._stream = driver, stream
        self._graphs: collections.OrderedDict[Addresses, Any] = collections.OrderedDict()
        self._seen: collections.OrderedDict[Addresses, None] = collections.OrderedDict()
        self._is_refused = False

    def launch(self, addresses: Addresses, walk: Callable[[], None]) -> bool:
        """Launch the graph for these addresses, which `walk` makes; return False if none is due.

        A program that the driver cannot capture has no graphs from then on.
        """
        graph = self._graphs.get(addresses)
        if graph is None:
            if self._is_refused or not self._is_known(addresses):
                return False
            graph = self._captured(walk)
            if graph is None:
                return False
            self._graphs[addresses] = graph
            if len(self._graphs) > MAX_GRAPHS:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(addresses)
        self._driver.launch_graph(graph, self._stream)
        return True

    def _is_known(self, addresses: Addresses) -> bool:
        """Return whether the addresses were seen before, and remember them."""
        if addresses in self._seen:
            del self._seen[addresses]
            return True
        self._seen[addresses] = None
        if len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)
        return False

    def _captured(self, walk: Callable[[], None]) -> Any:
        """Return a graph of what `walk` gives the stream; None where the driver refuses."""
        self._driver.begin_capture(self._stream)
        try:
            walk()
        except DeviceLostError:
            raise
        except Exception:
            self._is_refused = True
        try:
            graph = self._driver.end_capture(self._stream)
        except DeviceLostError:
            raise
        except Exception:
            self._is_refused = True
        return None if self._is_refused else graph


GraphsOfPrograms = weakref.WeakKeyDictionary[Any, Graphs]
"""The graphs that a stream has of loaded programs, which are dropped with them."""


def has_graphs(program: DeviceProgram) -> bool:
    """Return whether a graph can have all rows of a program, and saves launches."""
    return len(program.rows) > 1 and all(isinstance(row, Launch | Copy) for row in program.rows)

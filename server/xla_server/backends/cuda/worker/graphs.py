"""Graphs: rows of a program that need neither the server nor a predicate, as one launch.

A graph has its addresses in it. Memory of a pool comes back at the same addresses, and the values
of a loop stay where they are: each set of addresses that comes a second time gets a graph.
"""

import collections
from collections.abc import Callable
from typing import Any

from xla_server.backends.cuda.worker.device.driver import CapturingDriver
from xla_server.backends.cuda.worker.exchange.protocol import DeviceLostError

MAX_ADDRESS_SETS = 32
"""Sets of addresses that a program has graphs for in one stream, those that were used last."""


class Graphs:
    """The graphs of one program in one stream."""

    def __init__(self, driver: CapturingDriver, stream: int) -> None:
        self._driver, self._stream = driver, stream
        self._sets: collections.OrderedDict[tuple[int, ...], FixedGraphs]
        self._sets = collections.OrderedDict()
        self.refused: set[int] = set()
        """First rows of segments that the driver could not capture: they have no graphs."""

    def at(self, addresses: tuple[int, ...]) -> "FixedGraphs":
        """Return the graphs for the addresses of all slots."""
        found = self._sets.get(addresses)
        if found is None:
            found = self._sets[addresses] = FixedGraphs(self._driver, self._stream, self.refused)
            if len(self._sets) > MAX_ADDRESS_SETS:
                self._sets.popitem(last=False)
        self._sets.move_to_end(addresses)
        return found


class FixedGraphs:
    """The graphs of a program for one set of addresses."""

    def __init__(self, driver: CapturingDriver, stream: int, refused: set[int]) -> None:
        self._driver, self._stream, self._refused = driver, stream, refused
        self._graphs: dict[int, Any] = {}
        self._seen: set[int] = set()

    def launch(self, first: int, walk: Callable[[], None]) -> bool:
        """Launch the graph of the segment at a row, which `walk` makes the second time.

        Returns False where there is none.
        """
        if first not in self._graphs:
            if first in self._refused:
                return False
            if first not in self._seen:
                self._seen.add(first)
                return False
            graph = self._captured(walk)
            if graph is None:
                self._refused.add(first)
                return False
            self._graphs[first] = graph
        self._driver.launch_graph(self._graphs[first], self._stream)
        return True

    def _captured(self, walk: Callable[[], None]) -> Any:
        """Return a graph of what `walk` gives the stream; None where the driver refuses."""
        self._driver.begin_capture(self._stream)
        is_refused = False
        try:
            walk()
        except DeviceLostError:
            raise
        except Exception:  # A wrong call fails in plain launches, too.
            is_refused = True
        try:
            graph = self._driver.end_capture(self._stream)
        except DeviceLostError:
            raise
        except Exception:  # The same.
            is_refused = True
        return None if is_refused else graph

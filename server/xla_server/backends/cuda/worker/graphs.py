"""CUDA graphs: thunks of a program that do not need the server, as one launch.

A graph contains the addresses of the slots that its thunks use. A set of addresses that occurs a
second time gets a graph: memory is reused, and the values of a loop keep their addresses. For a new
set the least recently used graph is updated, node by node, which takes the host a tenth of a launch
for each.
"""

import collections
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from xla_server.backends.cuda.worker.device.driver import Driver, NodeWork
from xla_server.backends.cuda.worker.exchange.protocol import DeviceLostError
from xla_server.backends.cuda.worker.segments import Item, Segment

MAX_ADDRESS_SETS = 32
"""Bound of address sets for which a segment has graphs in one stream, the last used ones."""

Addresses: TypeAlias = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class SegmentGraph:
    """A graph, and its items with their nodes.

    A condition's thunks occur twice; an empty copy has None.
    """

    graph: Any
    nodes: Sequence[tuple[Item, Any]]


Walk: TypeAlias = Callable[[], Sequence[tuple[Item, Any]]]
"""Enqueues a segment's thunks to a stream under capture; returns the nodes of a SegmentGraph."""

NodeChange: TypeAlias = tuple[Any, NodeWork]
"""A node, and its new work."""

Changes: TypeAlias = Callable[[SegmentGraph, Addresses], Sequence[NodeChange] | None]
"""Returns the node changes from these addresses of a graph to a run's; None if impossible."""

_Sets: TypeAlias = collections.OrderedDict[Addresses, SegmentGraph | None]


class Graphs:
    """The graphs of one program in one stream."""

    def __init__(self, driver: Driver, stream: int) -> None:
        self._driver, self._stream = driver, stream
        self._sets: dict[Segment, _Sets] = {}
        self._refused: set[Segment] = set()
        """Segments that the driver could not capture: they have no graphs."""
        self._fixed: set[Segment] = set()
        """Segments whose graphs the driver could not change."""

    def launch(self, segment: Segment, addresses: Addresses, walk: Walk, changes: Changes) -> bool:
        """Launch the graph of a segment for the addresses of its slots.

        Returns False if the segment has no graph.
        """
        if segment in self._refused:
            return False
        sets = self._sets.setdefault(segment, collections.OrderedDict())
        if addresses in sets:
            found = sets[addresses] or self._captured(segment, walk)
        else:
            found = self._changed(segment, sets, changes)
        sets[addresses] = found
        sets.move_to_end(addresses)
        if len(sets) > MAX_ADDRESS_SETS:
            sets.popitem(last=False)
        if found is not None:
            self._driver.launch_graph(found.graph, self._stream)
        return found is not None

    def _changed(self, segment: Segment, sets: _Sets, changes: Changes) -> SegmentGraph | None:
        """Return the least recently used graph, updated to a run's addresses; None without one."""
        oldest = next((each for each, graph in sets.items() if graph is not None), None)
        graph = sets[oldest] if oldest is not None else None
        if oldest is None or graph is None or segment in self._fixed:
            return None
        changed = changes(graph, oldest)
        if changed is None:
            return None
        # If these addresses occur again, they get a new graph.
        sets[oldest] = None
        try:
            for node, work in changed:
                self._driver.change_node(graph.graph, node, work, self._stream)
        except DeviceLostError:
            raise
        except Exception:  # Some nodes have other addresses now: the graph is not used again.
            self._fixed.add(segment)
            return None
        return graph

    def _captured(self, segment: Segment, walk: Walk) -> SegmentGraph | None:
        """Return a graph of the work that `walk` enqueues; None if the driver cannot capture it."""
        self._driver.begin_capture(self._stream)
        try:
            nodes = walk()
        except DeviceLostError:
            raise
        except Exception:  # A wrong call fails in plain launches, too.
            self._refused.add(segment)
        try:
            graph = self._driver.end_capture(self._stream)
        except DeviceLostError:
            raise
        except Exception:  # The same.
            self._refused.add(segment)
        return None if segment in self._refused else SegmentGraph(graph, nodes)

"""List scheduling: a stable topological order that also respects soft dependences."""

import dataclasses
import heapq
from collections.abc import Sequence
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class SoftDependence:
    """A node that should be scheduled after other nodes.

    Where soft dependences form a cycle, alone or with hard ones, the one of lowest `priority`
    (any values that compare) is dropped.
    """

    node: int
    after: tuple[int, ...]
    priority: Any


def schedule(predecessors: Sequence[Sequence[int]], soft: Sequence[SoftDependence]) -> list[int]:
    """Return the nodes 0, 1 ... in a topological order.

    The next node is the lowest one whose dependences are scheduled, so the order changes only where
    a dependence requires it. The time is O((nodes + edges) log nodes), plus the lengths of the
    cycles on which soft dependences are dropped. `predecessors` has each node once, and no cycles.
    """
    first = _Schedule(predecessors, soft)
    order = first.run()
    if not first.dropped:
        return order
    # Dropped dependences delayed their nodes until a cycle was found.
    kept = [each for number, each in enumerate(soft) if number not in first.dropped]
    return _Schedule(predecessors, kept).run()


class _Schedule:
    """State of one run. Soft dependences are referred to by their index."""

    def __init__(
        self, predecessors: Sequence[Sequence[int]], soft: Sequence[SoftDependence]
    ) -> None:
        count = len(predecessors)
        self.dropped: set[int] = set()
        self._predecessors, self._soft = predecessors, soft
        self._is_scheduled = [False] * count
        # Unscheduled predecessors and unsatisfied soft dependences of each node.
        self._blockers = [len(nodes) for nodes in predecessors]
        self._successors: list[list[int]] = [[] for _ in range(count)]
        for node, nodes in enumerate(predecessors):
            for predecessor in nodes:
                self._successors[predecessor].append(node)
        # Soft dependences by their node and by the nodes before it.
        self._soft_of: list[list[int]] = [[] for _ in range(count)]
        self._soft_after: list[list[int]] = [[] for _ in range(count)]
        self._pending = [len(each.after) for each in soft]
        for number, each in enumerate(soft):
            if each.after:
                self._soft_of[each.node].append(number)
                self._blockers[each.node] += 1
            for node in each.after:
                self._soft_after[node].append(number)
        self._ready = [node for node, blockers in enumerate(self._blockers) if not blockers]
        # A path of nodes each blocked by the next, the index of each node on it, and for each
        # edge the soft dependence that it comes from, None for a predecessor.
        self._path: list[int] = []
        self._index: dict[int, int] = {}
        self._edges: list[int | None] = []
        self._lowest = 0

    def run(self) -> list[int]:
        """Schedule all nodes."""
        order: list[int] = []
        while len(order) < len(self._predecessors):
            while not self._ready:
                self._drop(self._lowest_on_cycle())
            node = heapq.heappop(self._ready)
            self._is_scheduled[node] = True
            order.append(node)
            for successor in self._successors[node]:
                self._unblock(successor)
            for number in self._soft_after[node]:
                self._pending[number] -= 1
                if self._pending[number] == 0:
                    self._unblock(self._soft[number].node)
        return order

    def _unblock(self, node: int) -> None:
        self._blockers[node] -= 1
        if self._blockers[node] == 0:
            heapq.heappush(self._ready, node)

    def _drop(self, number: int) -> None:
        self.dropped.add(number)
        # Never 0 again, so the node is unblocked only once.
        self._pending[number] = -1
        self._unblock(self._soft[number].node)

    def _lowest_on_cycle(self) -> int:
        """Return the soft dependence of lowest priority on a cycle of blocked nodes.

        The path is reused, for linear time: nodes scheduled since the last call are at its end.
        """
        while self._path and self._is_scheduled[self._path[-1]]:
            self._truncate(len(self._path) - 1)
        if not self._path:
            while self._is_scheduled[self._lowest]:
                self._lowest += 1
            self._append(self._lowest)
        while True:
            node, number = self._blocker(self._path[-1])
            self._edges.append(number)
            if node in self._index:
                break
            self._append(node)
        cycle = [edge for edge in self._edges[self._index[node] :] if edge is not None]
        lowest = min(cycle, key=lambda edge: (self._soft[edge].priority, edge))
        self._truncate(self._index[self._soft[lowest].node] + 1)
        return lowest

    def _append(self, node: int) -> None:
        self._index[node] = len(self._path)
        self._path.append(node)

    def _truncate(self, length: int) -> None:
        for node in self._path[length:]:
            del self._index[node]
        del self._path[length:]
        del self._edges[max(0, length - 1) :]

    def _blocker(self, node: int) -> tuple[int, int | None]:
        """Return an unscheduled node that blocks this one, and the soft dependence if it is one."""
        for predecessor in self._predecessors[node]:
            if not self._is_scheduled[predecessor]:
                return predecessor, None
        number = next(number for number in self._soft_of[node] if self._pending[number] > 0)
        after = self._soft[number].after
        return next(each for each in after if not self._is_scheduled[each]), number

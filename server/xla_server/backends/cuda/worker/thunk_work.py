"""Work of a program's thunks with the addresses of a run, for a stream and for graphs."""

import functools
from collections.abc import Sequence
from typing import Any

from xla_server.backends.cuda.worker.device.driver import (
    CaseIndex,
    DeviceCopy,
    Driver,
    KernelLaunch,
    LoopCondition,
    NodeWork,
    PreparedCall,
    Work,
)
from xla_server.backends.cuda.worker.exchange import protocol
from xla_server.backends.cuda.worker.graphs import Addresses, NodeChange, SegmentGraph
from xla_server.backends.cuda.worker.loaded import WorkerProgram
from xla_server.backends.cuda.worker.segments import Case, Item, Items, Loop, Segment, slots_of


class ThunkWork:
    """Work of thunks, with `addresses` by slots; loops of graphs end once `stop` is not zero."""

    def __init__(
        self, driver: Driver, loaded: WorkerProgram, addresses: Sequence[int], stop: int
    ) -> None:
        self._driver, self._loaded, self._addresses = driver, loaded, addresses
        self._stop = stop

    def of(self, thunk: protocol.DeviceThunk) -> Work | None:
        """Return the work of a thunk; None for an empty copy, or of a value to itself."""
        loaded, addresses = self._loaded, self._addresses
        match thunk:
            case protocol.Launch(number, slots):
                kernel = loaded.program.kernels[number]
                return KernelLaunch(
                    loaded.kernels[number],
                    *(kernel.blocks, kernel.threads, kernel.shared_bytes),
                    [addresses[slot] for slot in slots],
                )
            case protocol.LibraryCall(plan, slots):
                return PreparedCall(loaded.plans[plan], [addresses[slot] for slot in slots])
            case protocol.Copy(to, begin, byte_size):
                target, source = addresses[to], addresses[begin]
                is_needed = byte_size and target != source
                return DeviceCopy(target, source, byte_size) if is_needed else None
        raise TypeError(f"a stream does launches, calls and copies, got {thunk}")

    def _condition(self, loop: Loop) -> LoopCondition:
        return LoopCondition(self._addresses[loop.predicate], self._stop)

    def _index(self, case: Case) -> CaseIndex:
        return CaseIndex(self._addresses[case.index], case.byte_size, len(case.cases))

    def captured(self, segment: Segment, stream: int) -> Sequence[tuple[Item, Any]]:
        """Enqueue a segment to a stream under capture; return its items with their nodes."""
        nodes: list[tuple[Item, Any]] = []
        self._capture(segment.items, nodes, stream)
        return nodes

    def _capture(self, items: Items, nodes: list[tuple[Item, Any]], stream: int) -> None:
        """Enqueue thunks, loops and branches for a graph, and add their nodes."""
        for item in items:
            node: Any = None
            match item:
                case Loop():
                    self._capture(item.condition, nodes, stream)
                    iteration = functools.partial(self._capture, item.body + item.condition, nodes)
                    node = self._driver.capture_loop(self._condition(item), iteration, stream)
                case Case():
                    cases = [functools.partial(self._capture, case, nodes) for case in item.cases]
                    node = self._driver.capture_case(self._index(item), cases, stream)
                case int():
                    work = self.of(self._loaded.program.thunks[item])
                    node = None if work is None else self._driver.capture(work, stream)
            nodes.append((item, node))

    def changes(
        self, segment: Segment, graph: SegmentGraph, before: Addresses
    ) -> Sequence[NodeChange] | None:
        """Return the nodes whose addresses differ, with their work; None if one is missing.

        A copy of a value to itself has no node.
        """
        thunks, addresses = self._loaded.program.thunks, self._addresses
        known = dict(zip(self._loaded.slots[segment], before, strict=True))
        changes: list[NodeChange] = []
        for item, node in graph.nodes:
            part = thunks[item] if isinstance(item, int) else item
            if all(addresses[slot] == known[slot] for slot in slots_of(part)):
                continue
            work: NodeWork | None
            match part:
                case Loop():
                    work = self._condition(part)
                case Case():
                    work = self._index(part)
                case _:
                    work = self.of(part)
            if work is None or node is None:
                return None
            changes.append((node, work))
        return changes

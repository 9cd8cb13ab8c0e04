"""The schedules in the order of trial: the first that fits a graph makes its kernel."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TypeAlias

from xla_server.codegen.schedules.builders.collapse import Make, collapsed
from xla_server.codegen.schedules.builders.flat_loop import flat_loop
from xla_server.codegen.schedules.builders.launches.scheduled import ScheduledKernel
from xla_server.codegen.schedules.builders.launches.work_items import parts_of_items
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.builders.split_dimension import split_dimension
from xla_server.codegen.schedules.nests.columns import column_kernel
from xla_server.codegen.schedules.nests.interleaved import (
    Interleaved,
    interleaved,
    neighbouring_reductions,
)
from xla_server.codegen.schedules.nests.pieces import piece_kernel
from xla_server.codegen.schedules.nests.rows import row_kernel
from xla_server.codegen.schedules.nests.short_rows import short_row_kernel
from xla_server.codegen.schedules.nests.window_graph import MakeBy
from xla_server.codegen.schedules.nests.windows import window_kernel
from xla_server.codegen.trace.graph import Store
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Index
from xla_server.target.target import Target


@dataclasses.dataclass(frozen=True)
class ElementGraph:
    """A result's dimensions, and the function that makes the stores of one of its elements.

    `cancellation` is the argument number of the cancellation flag, for kernels that poll it. The
    kernel `is_repeated` if a loop runs it many times.
    """

    dimensions: Sequence[int]
    make: MakeBy
    target: Target
    cancellation: int
    is_repeated: bool = False

    @functools.cached_property
    def nest(self) -> Nest:
        """The collapsed loops over elements, and the stores inside."""
        sizes, make = self._interleaved
        return Nest(*collapsed(sizes, make), self.target, self.cancellation)

    @property
    def nest_of_rows(self) -> Nest:
        """The nest of rows, or one flat loop over all elements; work items may split a loop."""
        whole = flat_loop(*self._interleaved, self.nest.loops, self.nest.stores, self.target)
        if whole is not None:
            loop, stores = whole
            return Nest((loop,), stores, self.target, self.cancellation, is_flat=True)
        sizes, make = self._interleaved
        beside = neighbouring_reductions(sizes, make, self.nest.loops, self.nest.stores)
        if beside is not None:
            return Nest(*collapsed(*beside), self.target, self.cancellation)
        divide = functools.partial(parts_of_items, tuned=self.target.tuning.loops)
        if divide(self.nest.loops, self.nest.stores) == 1:
            return self.nest
        return Nest(*collapsed(sizes, make, divide), self.target, self.cancellation)

    @functools.cached_property
    def _unrolled(self) -> Interleaved:
        return interleaved(self.dimensions, self._make, self.target.tuning.loops)

    @functools.cached_property
    def _interleaved(self) -> "tuple[Sequence[int], Make]":
        found = self._unrolled
        if found.is_ragged:
            return split_dimension(self.dimensions, self._make)
        return split_dimension(found.dimensions, found.make)

    def _make(self, index: Index) -> Sequence[Store]:
        return self.make(index, RULES)

    def in_pieces(self) -> ScheduledKernel | None:
        """Return the kernel of the nest, cut where the outcomes of index tests change."""
        kernel, found, is_repeated = None, self._unrolled, self.is_repeated
        if found.is_ragged:
            sizes, make = found.dimensions, found.make
            nest = Nest(*collapsed(sizes, make), self.target, self.cancellation)
            kernel = piece_kernel(nest, sizes, make, is_repeated=is_repeated, is_ragged=True)
        return kernel or piece_kernel(self.nest, *self._interleaved, is_repeated=is_repeated)


Build: TypeAlias = Callable[[ElementGraph], ScheduledKernel | None]
"""Returns the kernel of a graph; None if the schedule does not fit it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Schedule:
    """A way to turn a scalar graph into loops.

    `fits` describes the graphs it takes, `reason` why it precedes the schedules after it. If it
    `reads_first`, every element is read before it is written, so a result may be written over an
    operand that is read at the same index.
    """

    name: str
    build: Build
    fits: str
    reason: str
    reads_first: bool = True


SCHEDULES: tuple[Schedule, ...] = (
    Schedule(
        "windows",
        lambda graph: window_kernel(graph.dimensions, graph.make, graph.target),
        "reduce-windows of one form whose combination has a free order",
        "An element under many windows is loaded and computed once for all of them.",
        reads_first=False,
    ),
    Schedule(
        "columns",
        lambda graph: column_kernel(graph.nest),
        "results made of reductions over leading dimensions",
        "A loop for each result would stride through memory; rows are read in one run.",
        reads_first=False,
    ),
    Schedule(
        "pieces",
        ElementGraph.in_pieces,
        "elements that are tested for the edges of a concatenate or a pad, without reductions",
        "Between two edges tests have one outcome, and vectors need none.",
    ),
    Schedule(
        "short rows",
        lambda graph: short_row_kernel(graph.nest),
        "many rows of at most 64 elements, with costly operations once for each row",
        "The operations of 64 rows are done side by side in vectors.",
    ),
    Schedule(
        "rows",
        lambda graph: row_kernel(graph.nest_of_rows),
        "all others",
        "What is the same for a row is computed once for it.",
    ),
)


def scheduled_by(graph: ElementGraph) -> tuple[Schedule, ScheduledKernel]:
    """Return the first schedule that fits a graph, and the kernel it makes."""
    for schedule in SCHEDULES:
        kernel = schedule.build(graph)
        if kernel is not None:
            return schedule, kernel
    raise AssertionError("the last schedule fits every graph")

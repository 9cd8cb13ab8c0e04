"""Scalar graphs of reduce-window kernels; elements under a window are a graph of their own."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from xla_contract.types.dimension_numbers import WindowDimension
from xla_contract.types.opcode import Opcode
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.schedules.nests.window_tiles import TiledAxis, WindowAxis
from xla_server.codegen.trace.elementwise import literal
from xla_server.codegen.trace.graph import Immediate, Node, ReductionResult, Store
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.merging import groups_of, indices_of, merged
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Index, Rule, Tracer
from xla_server.fusion.analysis.windows import has_free_order
from xla_server.ir.analysis.affine import Affine, Variable, variable
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction
from xla_server.ops.elementwise.elementwise_table import ROWS
from xla_server.passes.framework.queries import combiner, neutral_of

MakeBy: TypeAlias = Callable[[Index, Mapping[Opcode, Rule]], Sequence[Store]]
"""Function from an element's index, and the rules of opcodes, to the stores that compute it."""


class OtherWindowsError(Exception):
    """The windows fit no tile: they have several forms, or an operation that has an order."""


@dataclasses.dataclass(eq=False)
class Windowed(Node):
    """The reduction of the elements under a window by `function`, with its `neutral` element.

    `element` is the graph of an operand element, in its own variables. `loops` are the loops over
    results.
    """

    instruction: HloInstruction
    loops: frozenset[Variable]
    function: str
    element: Node
    initial: Node
    neutral: Immediate

    def __post_init__(self) -> None:
        self.type = self.element.type

    @cached_property
    def variables(self) -> frozenset[Variable]:
        """The loop variables that the value depends on: those of results."""
        return self.loops

    def inputs(self) -> Sequence[Node]:
        """The nodes this one reads."""
        return self.element, self.initial


@dataclasses.dataclass(frozen=True, slots=True)
class Walk:
    """A loop over an axis merged with the whole axes after it, up to axis number `last`.

    `inner` is the number of elements of the merged axes for each position of the first.
    """

    loop: Variable
    axis: int
    last: int
    inner: int


@dataclasses.dataclass(frozen=True, slots=True)
class WindowGraph:
    """The stores of a kernel, and the reduced windows they read, which have one form."""

    stores: tuple[Store, ...]
    windows: tuple[Windowed, ...]

    @property
    def window(self) -> tuple[WindowDimension, ...]:
        """The attributes that all windows share."""
        dimensions: tuple[WindowDimension, ...] = self._first.attributes.window.dimensions
        return dimensions

    @property
    def bases(self) -> tuple[int, ...]:
        """The dimensions of the windows' operands."""
        return self._first.operands[0].shape.dimensions

    @property
    def elements(self) -> tuple[Store, ...]:
        """The operand elements as stores, for analyses that read stores."""
        kind = KERNEL_TYPE[self._first.shape.element_type]
        return tuple(Store(0, kind, Affine(0), each.element) for each in self.windows)

    @property
    def _first(self) -> HloInstruction:
        return self.windows[0].instruction


def traced(make: MakeBy, loops: Iterable[Variable], index: Index, positions: Index) -> WindowGraph:
    """Trace the stores at `index` in the variables of `loops`, and the elements at `positions`.

    Raises OtherWindowsError.
    """
    inside = frozenset(loops)
    found: list[Windowed] = []

    def trace(t: Tracer, i: HloInstruction, at: Index, number: int) -> Deep[Node]:
        kind, opcode = i.shape.element_type, combiner(i.called[0])
        if t.guard is not None or at != index or opcode is None or not has_free_order(i):
            raise OtherWindowsError
        element: Node = yield t.operand(i, 0, positions)
        function = ROWS[opcode].kernel_function(kind, element.type)
        neutral = literal(kind.dtype.type(neutral_of(opcode, kind)), kind)
        initial: Node = yield t.operand(i, 1, ())
        windowed = Windowed(i, inside, function, element, initial, neutral)
        found.append(windowed)
        return windowed

    stores = tuple(make(index, {**RULES, Opcode.REDUCE_WINDOW: trace}))
    if not found:
        raise OtherWindowsError
    graph = WindowGraph(stores, tuple(found))
    for each in found:
        i = each.instruction
        is_other = i.attributes.window.dimensions != graph.window or each.type != found[0].type
        if is_other or i.operands[0].shape.dimensions != graph.bases:
            raise OtherWindowsError
    if any(isinstance(node, ReductionResult) for node in all_nodes(stores)):
        raise OtherWindowsError
    if any(isinstance(node, Windowed) for node in all_nodes(graph.elements)):
        raise OtherWindowsError
    return graph


class AxisFinder:
    """Finds which dimensions can be merged to one axis of tiles, and which axes share one loop."""

    def __init__(self, dimensions: Sequence[int], make: MakeBy) -> None:
        """Trace the kernel of these dimensions. Raises OtherWindowsError."""
        self._dimensions = dimensions
        results = [Variable(size, "i") for size in dimensions]
        index = tuple(map(variable, results))
        # A first trace finds the dimensions of the operands.
        self._bases = traced(make, results, index, (Affine(0),) * len(dimensions)).bases
        elements = [Variable(size, "p") for size in self._bases]
        graph = traced(make, results, index, tuple(map(variable, elements)))
        self.windows = graph.windows
        self._window = graph.window
        self._kept = [
            number
            for number, sizes in enumerate(zip(dimensions, self._bases, strict=True))
            if sizes != (1, 1) or self._window[number] != WindowDimension(1)
        ]
        self._results, self._elements = results, elements
        self._joined = [
            self._joints(results, list(indices_of(graph.stores))),
            self._joints(elements, list(indices_of(graph.elements))),
        ]
        self.axes = self._axes()

    def _joints(self, loops: Sequence[Variable], indices: Sequence[Affine]) -> set[int]:
        """Return the dimensions that can share a loop with the kept dimension before them."""
        pairs = zip(self._kept, self._kept[1:], strict=False)
        return {
            after
            for before, after in pairs
            if 1 not in (loops[before].size, loops[after].size)
            and len(groups_of([loops[before], loops[after]], indices)) == 1
        }

    def _axes(self) -> list[WindowAxis]:
        axes: list[WindowAxis] = []
        self._axis_of: dict[int, int] = {}
        for number in self._kept:
            size, base = self._dimensions[number], self._bases[number]
            window = self._window[number]
            is_joined = all(number in joined for joined in self._joined)
            if is_joined and window == axes[-1].window == WindowDimension(1):
                size, base = size * axes[-1].size, base * axes[-1].base
                axes[-1] = WindowAxis(size, base, window)
            else:
                axes.append(WindowAxis(size, base, window))
            self._axis_of[number] = len(axes) - 1
        return axes

    def results(self, axes: Sequence[TiledAxis]) -> tuple[list[Walk], Index]:
        """Return the loops over results, and the index of a result in their variables."""
        return self._walks(axes, self._results, self._joined[0], lambda axis: True)

    def elements(self, axes: Sequence[TiledAxis]) -> tuple[list[Walk], Index]:
        """Return the loops over elements under windows, and the index of an element."""
        return self._walks(axes, self._elements, self._joined[1], _keeps_order)

    def _walks(
        self,
        axes: Sequence[TiledAxis],
        loops: Sequence[Variable],
        joined: set[int],
        may_begin: Callable[[TiledAxis], bool],
    ) -> tuple[list[Walk], Index]:
        groups: list[list[int]] = []
        for number in self._kept:
            axis = self._axis_of[number]
            begins = axes[self._axis_of[groups[-1][0]]] if groups else None
            if (
                begins is not None
                and number in joined
                and (
                    axis == self._axis_of[groups[-1][-1]]
                    or (axes[axis].is_whole and may_begin(begins))
                )
            ):
                groups[-1].append(number)
            else:
                groups.append([number])
        walks = []
        indices: dict[Variable, Affine] = {}
        for group in groups:
            own = [loops[number] for number in group]
            made, at = merged([own])
            first = self._axis_of[group[0]]
            inner = 1
            for number in group:
                inner *= loops[number].size if self._axis_of[number] != first else 1
            walks.append(Walk(made[0], first, self._axis_of[group[-1]], inner))
            indices.update(at)
        return walks, tuple(indices.get(loop, Affine(0)) for loop in loops)


def _keeps_order(axis: TiledAxis) -> bool:
    """Return whether adjacent elements along an axis are adjacent in a tile."""
    return axis.axis.window.stride == axis.axis.window.base_dilation == 1

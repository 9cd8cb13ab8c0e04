"""Loop nests cut between the operands of a concatenate, and at the edges of a pad.

Tests of each element's index would leave branches in every loop. Each test has a constant outcome
between two cuts, so only loads and stores remain. If there are too many cuts, as in a sum of
shifted arrays, or too many copies of the operations, cuts between short parts are left out, and
elements there keep their tests. If there are still too many, only the innermost dimension is cut,
and the remaining tests select rows.

Cuts of the innermost dimension with cuts make runs: loops in sequence in one work item, which
writes contiguous memory. Cuts of other dimensions make pieces, each with its own work items.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

from xla_server.codegen.kernel_ir.analysis.counts import cost_of
from xla_server.codegen.kernel_ir.builder import Body, Loop
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import Expression, integer_op
from xla_server.codegen.kernel_ir.statements import Call
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.collapse import Make, collapsed_loops
from xla_server.codegen.schedules.builders.copies import CopiedRun, InnerLoops
from xla_server.codegen.schedules.builders.launches.scheduled import ScheduledKernel
from xla_server.codegen.schedules.builders.loop_builder import LoopBuilder, Nest, close
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.schedules.nests.cuts import changes_of, cuts_of
from xla_server.codegen.trace.graph import Apply, ReductionResult, Store
from xla_server.codegen.trace.merging import groups_of, indices_of, merged
from xla_server.ir.analysis.affine import Affine, Variable, variable
from xla_server.target.loop_tuning import Pieces
from xla_server.target.target import Target

_LINE = 64
"""Bytes of a cache line."""

Box = tuple[tuple[int, int], ...]
"""The range of each dimension."""


@dataclasses.dataclass(frozen=True, slots=True)
class Piece:
    """Loops over work items, outermost first, and what each item executes.

    An item executes the runs in sequence, once for each iteration of the loops `inside` of it.
    """

    loops: tuple[Variable, ...]
    runs: tuple[InnerLoops, ...]
    inside: tuple[Variable, ...] = ()


class _TooManyError(Exception):
    """The pieces would be more code than they are worth."""


def piece_kernel(
    nest: Nest,
    dimensions: Sequence[int],
    make: Make,
    *,
    is_repeated: bool = False,
    is_ragged: bool = False,
) -> ScheduledKernel | None:
    """Return the kernel of a nest in pieces; None if no tests can be cut away.

    A kernel that a loop runs many times `is_repeated`: it pays for more code with any number of
    elements. In a nest that `is_ragged`, the last iteration of the last dimension is always cut
    off, as it has fewer stores.
    """
    nodes = all_nodes(nest.stores)
    tuned = nest.target.tuning.loops.pieces
    applied = [node for node in nodes if isinstance(node, Apply)]
    tests = sum(changes_of(node, tuned) is not None for node in applied)
    is_long = any(cost_of(node.function) > tuned.costly for node in applied)
    is_few = are_few(math.prod(dimensions), tests, tuned, is_long=is_long)
    if not (tests or is_ragged) or (is_few and not is_repeated):
        return None
    if any(isinstance(node, ReductionResult) for node in nodes):
        return None
    everywhere = [1] * len(dimensions)
    off_edges = [size // tuned.edge_parts for size in dimensions]
    apart = [min(size, tuned.min_part) for size in off_edges]
    inside_rows = [*(size + 1 for size in dimensions[:-1]), 1]
    elements = math.prod(dimensions)
    is_bound = elements <= tuned.max_small or max(dimensions) >= tuned.min_bound_row
    few = max(tuned.min_copied_nodes, tuned.max_copies * len(nodes))
    # Code of more operations than there are elements takes longer to compile than it saves.
    most = tuned.max_nodes if is_repeated else min(elements, tuned.max_nodes)
    attempts = [(everywhere, min(few, most)), (apart, most)]
    attempts = attempts if is_bound and not is_repeated else [(everywhere, most)]
    attempts += [(off_edges, most), (inside_rows, most)]
    traces = _Traces(make)
    for shortest, limit in attempts:
        cutting = _Cutting(traces, tuned, limit, shortest)
        try:
            cutting.cut_result(dimensions, is_ragged=is_ragged)
        except _TooManyError:
            continue
        pieces = cutting.pieces
        is_cut = len(pieces) > 1 or len(pieces[0].runs) > 1
        return _PieceBuilder(pieces, nest.target).built() if is_cut else None
    return None


def are_few(elements: int, tests: int, tuned: Pieces, *, is_long: bool) -> bool:
    """Return whether `elements` with `tests` each are too few to pay for code that runs once.

    The bound is higher for code that `is_long`.
    """
    few, least = tuned.few_tests, tuned.min_costly if is_long else tuned.min_elements
    return elements * max(tests, few) < least * few


def box_kernels(
    make: Make, boxes: Sequence[Box], dimension: int, target: Target, *, is_repeated: bool = False
) -> list[ScheduledKernel]:
    """Return kernels that each compute some of these boxes of a result.

    The boxes are adjacent in `dimension` and span all others. `make` must be able to compute the
    elements of a box without a test for it. A kernel has a bounded number of boxes, so the time to
    compile all kernels is linear in the number of boxes. Kernels that a loop runs many times are
    `is_repeated`: they are optimised even if they have few elements.
    """
    kernels, tuned = [], target.tuning.loops.pieces
    for first in range(0, len(boxes), tuned.max_runs):
        some = boxes[first : first + tuned.max_runs]
        pieces = _cut_boxes(make, some, dimension, tuned)
        elements = sum(math.prod(high - low for low, high in box) for box in some)
        is_plain = elements <= tuned.max_plain and not is_repeated
        effort = Effort.PLAIN if is_plain else Effort.OPTIMISED
        kernels.append(_PieceBuilder(pieces, target, effort).built())
    return kernels


def _cut_boxes(make: Make, boxes: Sequence[Box], dimension: int, tuned: Pieces) -> Sequence[Piece]:
    """Return the pieces of boxes, which are also cut between operands inside if those are few.

    Boxes that share rows keep sharing them: cuts of outer dimensions divide all of them.
    """
    elements = sum(math.prod(high - low for low, high in box) for box in boxes)
    traces = _Traces(make)
    for is_cut in (True, False) if elements >= tuned.min_costly else (False,):
        cutting = _Cutting(traces, tuned, tuned.max_nodes, [1] * len(boxes[0]))
        is_rows = len(boxes) > 1 and cutting.are_rows(boxes[0], dimension)
        try:
            if is_rows and is_cut:
                cutting.cut_rows(boxes, dimension)
            elif is_rows:
                cutting.add_runs(boxes, dimension)
            else:
                for box in boxes:
                    (cutting.cut if is_cut else cutting.add_whole)(box)
        except _TooManyError:
            continue
        break
    return cutting.pieces


class _Traces:
    """The stores of an element of a box, traced once for each box and index.

    Boxes with the same number of elements in a dimension have the same loop over it.
    """

    def __init__(self, make: Make) -> None:
        self._make = make
        self._loops: dict[tuple[int, int], Variable] = {}
        self._stores: dict[tuple[Box, tuple[Affine, ...]], tuple[Store, ...]] = {}

    def loops(self, box: Box) -> list[Variable]:
        """Return a loop for each dimension of a box."""
        sizes = enumerate(high - low for low, high in box)
        return [self._loops.setdefault(each, Variable(each[1], "i")) for each in sizes]

    def stores(self, box: Box, index: Sequence[Affine] = ()) -> tuple[Store, ...]:
        """Return the stores of an element by its index relative to the low end of a box.

        Without an index, it is that of the box's loops.
        """
        index = tuple(index) or tuple(map(variable, self.loops(box)))
        found = self._stores.get((box, index))
        if found is None:
            at = tuple(at + low for at, (low, _) in zip(index, box, strict=True))
            found = self._stores[box, index] = tuple(self._make(at))
        return found


class _Cutting:
    """Finds the pieces of a nest, with at most `max_nodes` operations.

    A cut between two parts below `shortest` is not made.
    """

    def __init__(
        self, traces: _Traces, tuned: Pieces, max_nodes: int, shortest: Sequence[int]
    ) -> None:
        self._traces, self._tuned, self._shortest = traces, tuned, shortest
        self._max_nodes = max_nodes
        self._run_count = 0
        self._node_count = 0
        self.pieces: list[Piece] = []

    def cut_result(self, dimensions: Sequence[int], *, is_ragged: bool) -> None:
        """Add the pieces of a result; cut off the last iteration if that `is_ragged`.

        Raises _TooManyError.
        """
        whole = tuple((0, size) for size in dimensions)
        last = len(dimensions) - 1
        boxes = _parts(whole, last, [dimensions[last] - 1]) if is_ragged else [whole]
        if is_ragged and self.are_rows(whole, last):
            self.cut_rows(boxes, last)
            return
        for box in boxes:
            self.cut(box)

    def cut(self, box: Box) -> None:
        """Add the pieces of a box. Raises _TooManyError."""
        waiting = [box]
        while waiting:
            part = waiting.pop()
            loops = self._traces.loops(part)
            found = cuts_of(loops, self._traces.stores(part), self._tuned).items()
            kept = {
                d: self._worthwhile(loops[d].size, cuts, self._shortest[d]) for d, cuts in found
            }
            cuts = {d: values for d, values in kept.items() if values}
            if not cuts:
                self.add_whole(part)
                self._check()
                continue
            first, last = min(cuts), max(cuts)
            if first == last and self.are_rows(part, last):
                self.add_runs(_parts(part, last, cuts[last]), last)
                self._check()
                continue
            waiting += reversed(_parts(part, first, cuts[first]))

    def cut_rows(self, boxes: Sequence[Box], dimension: int) -> None:
        """Add pieces in which each row has parts of all these boxes. Raises _TooManyError."""
        waiting = [tuple(boxes)]
        while waiting:
            rows = waiting.pop()
            traced = ((self._traces.loops(box), self._traces.stores(box)) for box in rows)
            found = [cuts_of(*each, self._tuned) for each in traced]
            outside = {d: cuts for each in found for d, cuts in each.items() if d < dimension}
            if outside:
                first = min(outside)
                parts = [_parts(box, first, outside[first]) for box in rows]
                waiting += reversed(list(zip(*parts, strict=True)))
                continue
            pairs = zip(rows, found, strict=True)
            runs = [_parts(box, dimension, cuts.get(dimension, ())) for box, cuts in pairs]
            self.add_runs(list(itertools.chain(*runs)), dimension)
            self._check()

    @staticmethod
    def _worthwhile(size: int, cuts: Sequence[int], shortest: int) -> list[int]:
        """Return the cuts with at least one side of `shortest` or more elements."""
        edges = [0, *cuts, size]
        return [
            cut
            for before, cut, after in zip(edges, cuts, edges[2:], strict=False)
            if max(cut - before, after - cut) >= shortest
        ]

    def add_whole(self, box: Box) -> None:
        """Add a piece as one nest of loops."""
        again = functools.partial(self._traces.stores, box)
        traced = self._traces.loops(box), self._traces.stores(box)
        loops, stores = collapsed_loops(*traced, again)
        outer = self._item_loops(loops, len(loops) - 1)
        self._add(Piece(loops[:outer], (InnerLoops(loops[outer:], stores),)))

    def _item_loops(self, loops: Sequence[Variable], outer: int, row: int = 1) -> int:
        """Return how many of these loops are over work items, `outer` at most.

        One iteration of all of them has `row` elements. To find the indices of an item takes as
        long as a short row.
        """
        while outer > 0 and _elements(loops[outer:]) * row < self._tuned.min_item_elements:
            outer -= 1
        return outer

    def add_runs(self, parts: Sequence[Box], dimension: int) -> None:
        """Add one piece, in which each row has all these parts."""
        outer = self._traces.loops(parts[0])[:dimension]
        inner = [self._traces.loops(part)[dimension:] for part in parts]
        indices = [list(indices_of(self._traces.stores(part))) for part in parts]
        items, merged_indices = merged(groups_of(outer, list(itertools.chain(*indices))))
        runs = []
        for part, loops, own in zip(parts, inner, indices, strict=True):
            row, inside = merged(groups_of(loops, own))
            at = [(merged_indices | inside).get(loop, Affine(0)) for loop in (*outer, *loops)]
            runs.append(InnerLoops(row, self._traces.stores(part, at)))
        # The index of an item of one loop needs no division.
        elements, count = sum(_elements(run.loops) for run in runs), len(items)
        count = self._item_loops(items, count, elements) if count > 1 else count
        self._add(Piece(items[:count], _joined(runs), items[count:]))

    def are_rows(self, box: Box, dimension: int) -> bool:
        """Return whether boxes adjacent in a dimension are faster row by row than box by box."""
        sizes = [high - low for low, high in box]
        row, rows = math.prod(sizes[dimension:]), math.prod(sizes[:dimension])
        return row <= self._tuned.max_row and rows >= self._tuned.min_rows

    def _add(self, piece: Piece) -> None:
        self.pieces.append(piece)
        self._run_count += len(piece.runs)
        self._node_count += sum(len(all_nodes(run.stores)) for run in piece.runs)

    def _check(self) -> None:
        if self._run_count > self._tuned.max_runs or self._node_count > self._max_nodes:
            raise _TooManyError


def _elements(loops: Sequence[Variable]) -> int:
    """Return the number of elements of a nest of loops."""
    return math.prod(loop.size for loop in loops)


def _parts(box: Box, dimension: int, cuts: Sequence[int]) -> list[Box]:
    """Return the parts of a box, cut at these indices relative to its low end."""
    low, high = box[dimension]
    edges = [low, *(low + cut for cut in cuts), high]
    return [(*box[:dimension], pair, *box[dimension + 1 :]) for pair in itertools.pairwise(edges)]


class _PieceBuilder(LoopBuilder):
    """Builds the pieces in sequence, each with a range of work items."""

    def __init__(
        self, pieces: Sequence[Piece], target: Target, effort: Effort = Effort.OPTIMISED
    ) -> None:
        stores = tuple(store for piece in pieces for run in piece.runs for store in run.stores)
        super().__init__(Nest((), stores, target))
        self._pieces, self._effort = pieces, effort

    def built(self) -> ScheduledKernel:
        """Return the kernel."""
        items = 0
        for piece in self._pieces:
            items += self._build_piece(piece, items)
        return self._scheduled()

    def _build_piece(self, piece: Piece, before: int) -> int:
        """Build a piece whose work items start at number `before`; return how many it has."""
        rows = _elements(piece.loops)
        inner = piece.inside or (piece.runs[0].loops if len(piece.runs) == 1 else ())
        length, each = _elements(inner[:1]), _elements(inner[1:])
        # Few long rows are cut into blocks, so that there are enough work items.
        block, tuned = length, self._tuned.pieces
        if rows < tuned.blocks and length * each > tuned.block:
            block = max(-(-tuned.block // each), -(-length // tuned.blocks))
            lines = _LINE // math.gcd(_LINE, each)
            block = -(-block // lines) * lines
        blocks = -(-length // block)
        items = rows * blocks
        body = Body(self._top)
        axis = item = self._axis("t")
        if before:
            item = body.let(self._names("t"), integer_op("sub", axis, before))
        part: tuple[Expression, Expression] | None = None
        if blocks > 1:
            names = self._names("i"), self._names("i"), self._names("t")
            number = integer_op("whole_mod", item, blocks)
            low = body.let(names[0], integer_op("mul", number, block))
            end = integer_op("add", low, block)
            part = low, body.let(names[1], integer_op("minimum", end, length))
            item = body.let(names[2], integer_op("whole_div", item, blocks))
        self._open_outer(piece.loops, item, body)
        if piece.inside:
            opened = self._open_blocks(piece.inside, body, part, blocks)
            for run in piece.runs:
                self._build_run(run, opened[-1], None, 1)
            close(opened)
        else:
            for run in piece.runs:
                self._build_run(run, body, part, blocks)
        is_loop = items > 1 or piece.loops or len(self._pieces) > 1
        self._close_part(body, axis if is_loop else None, items, before)
        return items

    def _build_run(
        self, run: InnerLoops, body: Body, part: tuple[Expression, Expression] | None, blocks: int
    ) -> None:
        """Build the loops of a run, as `_open_blocks` does."""
        if len(run.loops) == 1 and part is None:
            copy = self._copy(run)
            if copy is not None:
                body.add(copy)
                return
        opened = self._open_blocks(run.loops, body, part, blocks)
        self._store(run.stores, body)
        close(opened)

    def _open_blocks(
        self,
        loops: Sequence[Variable],
        outside: Body,
        part: tuple[Expression, Expression] | None,
        blocks: int,
    ) -> list[Loop]:
        """Begin nested loops, of which the outermost covers the range `part`, one of `blocks`."""
        opened: list[Loop] = []
        for loop in loops:
            if part is not None and loop is loops[0]:
                outside = self._open(loop, outside, part[1], part[0], loop.size / blocks)
            else:
                outside = self._open(loop, outside)
            opened.append(outside)
        return opened

    def _copy(self, run: InnerLoops) -> Call | None:
        """Return the memory copy that a run amounts to, if it is long enough; else None.

        Rows that start at cache lines are as fast in vector loops. Joined runs are always copied by
        a call, which takes a quarter of the time to compile.
        """
        copy = CopiedRun.of(run)
        if copy is None or not self._is_copied(copy):
            return None
        width = Type(copy.store.kernel_type.storage).byte_size
        is_short = copy.byte_size < self._tuned.pieces.min_call_bytes
        offset = copy.store.offset
        numbers = offset.constant, *(factor for _, factor in offset.terms)
        is_of_lines = all(number * width % _LINE == 0 for number in numbers)
        return None if not run.is_joined and (is_short or is_of_lines) else self._copying(copy)


def _joined(runs: Sequence[InnerLoops]) -> tuple[InnerLoops, ...]:
    """Return runs in which copies that continue each other are merged.

    Slices of an array at successive positions, as under a window, are such copies.
    """
    found: list[InnerLoops] = []
    last: CopiedRun | None = None
    for run in runs:
        copy = CopiedRun.of(run)
        longer = last.extended(copy) if last and copy else None
        if longer:
            found[-1] = longer.run()
        else:
            found.append(run)
        last = longer or copy
    return tuple(found)

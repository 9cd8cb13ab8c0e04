"""Reductions over anything but the last dimension: rows are added to a row of sums.

One loop for each result would stride through memory. Here a block of neighbouring results is
kept in the result's own memory and every row read is combined into it in one run. Sums of many rows
are sums of sums of fewer, which are kept on the stack.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from xla_server.codegen.loops.block import Block
from xla_server.codegen.loops.column_calls import fill_line, join_line, may_call, row_start
from xla_server.codegen.loops.fold_groups import needed_folds
from xla_server.codegen.loops.kept_rows import width_of
from xla_server.codegen.loops.nest import Nest, Printer, Source
from xla_server.codegen.loops.stopping import SPAN, stop_lines
from xla_server.codegen.loops.stored_nodes import all_nodes
from xla_server.codegen.loops.sum_levels import Step, is_even, steps_of, turn_of
from xla_server.codegen.loops.vector_folds import neutral_of, strict
from xla_server.codegen.trace.affine import Affine, Variable
from xla_server.codegen.trace.graph import Fold, Folded, Load, Node, Store
from xla_server.fusion.windows import is_short_window

BLOCK = 1024
"""Neighbouring results of one trip."""


def column_source(nest: Nest) -> Source | None:
    """The kernel's text where its stores are made of results of folds, and rows are what these
    read.
    """
    homes = _homes(nest)
    folds = list(dict.fromkeys(result.fold for result in homes))
    if not folds or not nest.loops or not folds[0].loops:
        return None
    is_tested = any(
        isinstance(node, Load) and node.guard is not None for node in all_nodes(nest.stores)
    )
    # Loops written out leave one loop around them, which becomes vector code and keeps its sums.
    # Tests of a window's edges are short text only where each of its elements has a loop.
    if is_short_window([loop.size for loop in folds[0].loops]) and not is_tested:
        return None
    last = nest.loops[-1]
    inside = {loop for fold in folds for loop in fold.loops}
    innermost = [fold.loops[-1] for fold in folds]
    # What changes with only one of the loops is read once for a row or a column either way.
    reads = [
        node
        for node in all_nodes(nest.stores)
        if isinstance(node, Load) and last in node.variables and node.variables & inside
    ]
    along = sum(_step(node.offset, last) == 1 for node in reads)
    across = sum(any(_step(node.offset, loop) == 1 for loop in innermost) for node in reads)
    if last.size < 4 or along <= across:
        return None
    return _ColumnPrinter(nest).printed_columns(homes, BLOCK)


def _step(offset: Affine, loop: Variable) -> int:
    return next((factor for atom, factor in offset.terms if atom is loop), 0)


def _homes(nest: Nest) -> dict[Folded, Store]:
    """Where each result of the nest's folds is kept: with a store of its type, not of another's.

    Empty where there is none for some result, or the folds are not of one form.
    """
    asked = list(dict.fromkeys(node for store in nest.stores for node in _results_in(store.value)))
    folds = list(dict.fromkeys(result.fold for result in asked))
    if any(map(needed_folds, folds)):
        return {}
    homes = {store.value: store for store in nest.stores if isinstance(store.value, Folded)}
    for result in asked:
        free = (store for store in nest.stores if store not in homes.values())
        home = homes.get(result) or next(
            (store for store in free if store.kernel_type.computed == result.type), None
        )
        if home is None or not home.kernel_type.is_exact:
            return {}
        homes[result] = home
    sizes = {tuple(loop.size for loop in fold.loops) for fold in folds}
    is_whole = len(asked) == sum(len(fold.accumulators) for fold in folds)
    is_single = len(set(map(id, homes.values()))) == len(asked)
    return homes if is_whole and is_single and len(sizes) == 1 and math.prod(*sizes) > 1 else {}


def _is_home(store: Store, homes: Mapping[Folded, Store]) -> bool:
    """Whether what is kept at a store is what it is to have in the end."""
    return isinstance(store.value, Folded) and homes.get(store.value) is store


def _results_in(value: Node) -> list[Folded]:
    """The results of folds that a node is made of."""
    found: dict[Node, None] = {}
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting += () if isinstance(node, Folded) else node.inputs()
    return [node for node in found if isinstance(node, Folded)]


@dataclasses.dataclass(slots=True)
class _Columns:
    """A block of neighbours along `last`: `size` from `low` on, or all up to `high`; `mean` many
    in the mean.

    `high` is empty where all blocks are equally long, `low` too where there is one. `rooms` have
    the sums that are added to sums in turn, `depth` blocks of each. Where it `calls`, runs that
    only begin or join sums are calls.
    """

    last: Variable
    size: int
    mean: float
    low: str = ""
    high: str = ""
    depth: int = 0
    rooms: dict[Folded, str] = dataclasses.field(default_factory=dict)
    calls: bool = False

    @property
    def count(self) -> str:
        """How many there are."""
        return f"sub({self.high}, {self.low})" if self.high else str(self.size)


@dataclasses.dataclass(frozen=True, slots=True)
class _Place:
    """The text that loads a value from where it is kept, and that which stores another."""

    load: str
    store: str


class _ColumnPrinter(Printer):
    """Writes, for each block: the initial values, then for each trip of the fold a run over it.

    A last run is for what is made of the results.
    """

    def printed_columns(self, homes: Mapping[Folded, Store], size: int) -> Source:
        """The text for blocks of `size` neighbouring results, which are kept at `homes`."""
        folds = list(dict.fromkeys(result.fold for result in homes))
        last = self._nest.loops[-1]
        outer = self._nest.loops[:-1]
        self._name_buffers()
        length = math.prod(loop.size for loop in folds[0].loops)
        work = min(size, last.size) * length * (2 + len(all_nodes(self._nest.stores)))
        self._look_if(work)
        blocks = -(-last.size // size)
        trips = math.prod(loop.size for loop in outer) * blocks
        trip = self._fresh("t")
        body = self._begin_items(trips, work)
        columns = _Columns(last, min(size, last.size), last.size / blocks)
        if blocks > 1:
            rest = self._fresh("t")
            columns.low = self._fresh("i")
            body.add(f"{columns.low} = mul(whole_mod({trip}, {blocks}), {size})")
            body.add(f"{rest} = whole_div({trip}, {blocks})")
            if last.size % size:
                columns.high = self._fresh("i")
                body.add(f"{columns.high} = minimum(add({columns.low}, {size}), {last.size})")
        else:
            rest = trip
        self._open_outer(outer, rest, body)
        results = [(store, result) for result, store in homes.items()]
        self._fold_rows(columns, body, folds, results)
        if made := [store for store in self._nest.stores if not _is_home(store, homes)]:
            self._finish(columns, body, results, made)
        return self._source(self._text(trip, trips, body), trips, work)

    def _fold_rows(
        self,
        columns: "_Columns",
        body: Block,
        folds: Sequence[Fold],
        results: Sequence[tuple[Store, Folded]],
    ) -> None:
        """Combine all rows into a block of results."""
        steps = steps_of([loop.size for loop in folds[0].loops])
        depth = sum(step.begins for step in steps)
        if depth:
            columns.depth = depth
            columns.rooms = {
                v: self._fresh("p") for _, v in results if v.fold.reassociates is not None
            }
        for result, room in columns.rooms.items():
            byte_size = depth * columns.size * width_of(result.type)
            self._top.add(f"{room} = room_for({byte_size})")
        columns.calls = may_call(columns.last, columns.size, results, columns.rooms)
        self._begin_columns(columns, body, results)
        headers = self._open_rows(columns, folds, steps, body)
        inner, _ = headers[-1]
        run, header = self._open_columns(columns, inner)
        for fold in folds:
            for own, loop in zip(fold.loops, folds[0].loops, strict=True):
                self._loop_names[own] = self._loop_names[loop]
                # Accumulators change in every element's turn, and so does what is made of them.
                self._blocks[own] = run
        places = [self._place(columns, depth, store, v, run) for store, v in results]
        for (_, result), place in zip(results, places, strict=True):
            name = self._fresh("a")
            run.add(f"{name} = {place.load}")
            self._names[result.fold.accumulators[result.number]] = name
        combined = [self._name(v.fold.combined[v.number]) for _, v in results]
        self._evaluated.add_all(folds, run)
        for place, node in zip(places, combined, strict=True):
            run.add(place.store.format(node))
        headers.append((run, header))
        for step in reversed(steps) if columns.rooms else ():
            self._close([headers.pop()])
            if step.begins:
                self._join(columns, depth, results, headers[-1][0])
                depth -= 1
        self._close(headers)

    def _open_rows(
        self, columns: "_Columns", folds: Sequence[Fold], steps: Sequence[Step], body: Block
    ) -> list[tuple[Block, str]]:
        """Begin the loops over rows: as they are, or cut where there are sums of sums."""
        if not columns.rooms:
            return self._open_loops(folds[0].loops, body)
        headers = []
        bounds: dict[int, tuple[str, str]] = {}
        for number, step in enumerate(steps):
            even = is_even(steps, step)
            body, header = self._open_step(folds, step, bounds, body, is_even=even)
            headers.append((body, header))
            if self._looks and step.begins and turn_of(steps, number) * columns.size >= SPAN:
                body.lines += stop_lines(body.depth)
        return headers

    def _place(
        self, columns: "_Columns", depth: int, store: Store, result: Folded, run: Block
    ) -> "_Place":
        """Where a run of results is at a depth: that of 0 is the result itself."""
        if result not in columns.rooms or not depth:
            kind = store.kernel_type.storage
            at = f"(buffer{store.argument}, {self._index(store.offset, run)}"
            return _Place(f"reload_{kind}{at})", f"store_{kind}{at}, {{}})")
        own = self._loop_names[columns.last]
        if columns.low:
            own = f"sub({own}, {columns.low})"
        if depth > 1:
            own = f"add({own}, {(depth - 1) * columns.size})"
        at = f"_{result.type}({columns.rooms[result]}, {own}"
        return _Place(f"kept{at})", f"keep{at}, {{}})")

    def _address(
        self, columns: "_Columns", depth: int, store: Store, result: Folded, block: Block
    ) -> str:
        """Where the first of a run of results is at a depth."""
        width = width_of(result.type)
        if result in columns.rooms and depth:
            before = (depth - 1) * columns.size * width
            return f"add({columns.rooms[result]}, {before})" if before else columns.rooms[result]
        index = self._index(row_start(store, columns.last), block)
        if columns.low:
            index = columns.low if index == "0" else f"add({index}, {columns.low})"
        buffer = f"buffer{store.argument}"
        if index.isdecimal():
            return f"add({buffer}, {int(index) * width})" if int(index) else buffer
        return f"add({buffer}, mul({index}, {width}))"

    def _open_columns(self, columns: "_Columns", body: Block) -> tuple[Block, str]:
        """Begin a run over a block of neighbours: its own block, and the line before that.

        The line says how long equally long blocks are: LLVM then writes nothing for rests.
        """
        run = Block(body.depth + 1, body, columns.mean)
        self._open(columns.last, run)
        name = self._loop_names[columns.last]
        if columns.high:
            return run, f"for {name} in range({columns.low}, {columns.high}):"
        if not columns.low:
            return run, f"for {name} in range({columns.size}):"
        number = self._fresh("i")
        run.add(f"{name} = add({columns.low}, {number})")
        return run, f"for {number} in range({columns.size}):"

    def _finish(
        self,
        columns: "_Columns",
        body: Block,
        results: Sequence[tuple[Store, Folded]],
        made: Sequence[Store],
    ) -> None:
        """Store what is made of a block of results."""
        # What was named in a run before this one is not to be seen here.
        known = self._names.items()
        self._names = {node: name for node, name in known if columns.last not in node.variables}
        run, header = self._open_columns(columns, body)
        for store, result in results:
            name = self._names[result] = self._fresh("a")
            place = self._index(store.offset, run)
            kind = store.kernel_type.storage
            run.add(f"{name} = reload_{kind}(buffer{store.argument}, {place})")
        self._store(made, body)
        body.add(header)
        body.lines += run.lines

    def _begin_columns(
        self, columns: "_Columns", body: Block, results: Sequence[tuple[Store, Folded]]
    ) -> None:
        """Set a block of results to the initial values, and sums of sums to nothing."""
        starts = [self._name(v.fold.initial[v.number]) for _, v in results]
        if columns.calls:
            for (store, result), value in zip(results, starts, strict=True):
                place = self._address(columns, 0, store, result, body)
                body.add(fill_line(place, columns.count, result.type, value))
                if result in columns.rooms:
                    neutral = self._name(neutral_of(result.fold))
                    room, count = columns.rooms[result], columns.depth * columns.size
                    body.add(fill_line(room, str(count), result.type, neutral))
            return
        run, header = self._open_columns(columns, body)
        for (store, result), value in zip(results, starts, strict=True):
            run.add(self._place(columns, 0, store, result, run).store.format(value))
            for depth in range(1, columns.depth + 1) if result in columns.rooms else ():
                neutral = self._name(neutral_of(result.fold))
                run.add(self._place(columns, depth, store, result, run).store.format(neutral))
        self._close([(run, header)])

    def _join(
        self,
        columns: "_Columns",
        depth: int,
        results: Sequence[tuple[Store, Folded]],
        body: Block,
    ) -> None:
        """Add the sums at a depth to those outside, and begin new ones."""
        summed = [(store, result) for store, result in results if result in columns.rooms]
        if columns.calls:
            for store, result in summed:
                inside = self._address(columns, depth, store, result, body)
                outside = self._address(columns, depth - 1, store, result, body)
                body.add(join_line(outside, inside, columns.count, result.type))
            return
        run, header = self._open_columns(columns, body)
        for store, result in summed:
            own = self._place(columns, depth, store, result, run)
            around = self._place(columns, depth - 1, store, result, run)
            total = f"{strict(result.fold)}({around.load}, {own.load})"
            run.add(around.store.format(total))
            run.add(own.store.format(self._name(neutral_of(result.fold))))
        self._close([(run, header)])

"""Reductions over anything but the last dimension: rows are added to a row of sums.

One loop for each result would stride through memory. Here a block of neighbouring results is
kept in the result's own memory and every row read is combined into it in one run.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from xla_server.codegen.loops.fold_groups import needed_folds
from xla_server.codegen.loops.nest import Block, Nest, Printer, Source, all_nodes
from xla_server.codegen.trace.affine import Affine, Variable
from xla_server.codegen.trace.graph import Folded, Load, Node, Store
from xla_server.fusion.fusible import is_short_window

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
    """A block of neighbours along `last`: `size` from `low` on, or all up to `high`.

    `high` is empty where all blocks are equally long, `low` too where there is one.
    """

    last: Variable
    size: int
    low: str = ""
    high: str = ""


class _ColumnPrinter(Printer):
    """Writes, for each block: the initial values, then for each trip of the fold a run over it.

    A last run is for what is made of the results.
    """

    def printed_columns(self, homes: Mapping[Folded, Store], size: int) -> Source:
        """The text for blocks of `size` neighbouring results, which are kept at `homes`."""
        folds = list(dict.fromkeys(result.fold for result in homes))
        last = self._nest.loops[-1]
        outer = self._nest.loops[:-1]
        for number in sorted(self._arguments()):
            self._top.add(f"buffer{number} = peek_i64(buffers, {number})")
        length = math.prod(loop.size for loop in folds[0].loops)
        work = min(size, last.size) * length * (2 + len(all_nodes(self._nest.stores)))
        self._look_if(work)
        blocks = -(-last.size // size)
        trip = self._fresh("t")
        body = Block(2, self._top)
        columns = _Columns(last, min(size, last.size))
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
        starts = [(s, self._name(v.fold.initial[v.number])) for s, v in results]
        self._run(columns, body, starts)
        loops = folds[0].loops
        headers = self._open_loops(loops, body)
        inner, _ = headers[-1]
        run, header = self._open_columns(columns, inner)
        headers.append((run, header))
        for fold in folds:
            for own, loop in zip(fold.loops, loops, strict=True):
                self._loop_names[own] = self._loop_names[loop]
                # Accumulators change in every element's turn, and so does what is made of them.
                self._blocks[own] = run
        for store, result in results:
            name = self._fresh("a")
            place = self._index(store.offset, run)
            kind = store.kernel_type.storage
            run.add(f"{name} = reload_{kind}(buffer{store.argument}, {place})")
            self._names[result.fold.accumulators[result.number]] = name
        combined = [(s, self._name(v.fold.combined[v.number])) for s, v in results]
        for store, node in combined:
            place = self._index(store.offset, run)
            run.add(f"store_{store.kernel_type.storage}(buffer{store.argument}, {place}, {node})")
        self._close(headers)
        if made := [store for store in self._nest.stores if not _is_home(store, homes)]:
            self._finish(columns, body, results, made)
        trips = math.prod(loop.size for loop in outer) * blocks
        return Source(self._text(trip, body), trips, work)

    def _open_columns(self, columns: "_Columns", body: Block) -> tuple[Block, str]:
        """Begin a run over a block of neighbours: its own block, and the line before that.

        The line says how long equally long blocks are: LLVM then writes nothing for rests.
        """
        run = Block(body.depth + 1, body)
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

    def _run(self, columns: "_Columns", body: Block, values: list[tuple[Store, str]]) -> None:
        """Set a block of results to the initial values."""
        run, header = self._open_columns(columns, body)
        for store, value in values:
            place = self._index(store.offset, run)
            run.add(f"store_{store.kernel_type.storage}(buffer{store.argument}, {place}, {value})")
        body.add(header)
        body.lines += run.lines

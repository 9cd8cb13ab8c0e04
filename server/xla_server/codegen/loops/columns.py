"""Reductions over anything but the last dimension: rows are added to a row of sums.

One loop for each result would stride through memory. Here a block of neighbouring results is
kept in the result's own memory and every row read is combined into it in one run.
"""

import math
from collections.abc import Mapping, Sequence

from xla_server.codegen.loops.fold_groups import needed_folds
from xla_server.codegen.loops.nest import Block, Nest, Printer, Source, all_nodes
from xla_server.codegen.trace.affine import Affine, Variable
from xla_server.codegen.trace.graph import Folded, Load, Node, Store

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
        trip, low, high = self._fresh("t"), self._fresh("i"), self._fresh("i")
        body = Block(2, self._top)
        body.add(f"{low} = mul(whole_mod({trip}, {blocks}), {size})")
        body.add(f"{high} = minimum(add({low}, {size}), {last.size})")
        rest = self._fresh("t")
        body.add(f"{rest} = whole_div({trip}, {blocks})")
        self._open_outer(outer, rest, body)
        results = [(store, result) for result, store in homes.items()]
        starts = [(s, self._name(v.fold.initial[v.number])) for s, v in results]
        self._run(last, low, high, body, starts)
        loops = folds[0].loops
        headers = self._open_loops(loops, body)
        inner, _ = headers[-1]
        run = Block(inner.depth + 1, inner)
        self._open(last, run)
        headers.append((run, f"for {self._loop_names[last]} in range({low}, {high}):"))
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
            self._finish(last, (low, high), body, results, made)
        trips = math.prod(loop.size for loop in outer) * blocks
        return Source(self._text(trip, body), trips, work)

    def _finish(
        self,
        last: Variable,
        bounds: tuple[str, str],
        body: Block,
        results: Sequence[tuple[Store, Folded]],
        made: Sequence[Store],
    ) -> None:
        """Store what is made of a block of results."""
        # What was named in a run before this one is not to be seen here.
        known = self._names.items()
        self._names = {node: name for node, name in known if last not in node.variables}
        run = Block(body.depth + 1, body)
        self._open(last, run)
        for store, result in results:
            name = self._names[result] = self._fresh("a")
            place = self._index(store.offset, run)
            kind = store.kernel_type.storage
            run.add(f"{name} = reload_{kind}(buffer{store.argument}, {place})")
        self._store(made, body)
        body.add(f"for {self._loop_names[last]} in range({', '.join(bounds)}):")
        body.lines += run.lines

    def _run(
        self, last: Variable, low: str, high: str, body: Block, values: list[tuple[Store, str]]
    ) -> None:
        """Set a block of results to the initial values."""
        run = Block(body.depth + 1, body)
        self._open(last, run)
        name = self._loop_names[last]
        for store, value in values:
            place = self._index(store.offset, run)
            run.add(f"store_{store.kernel_type.storage}(buffer{store.argument}, {place}, {value})")
        body.add(f"for {name} in range({low}, {high}):")
        body.lines += run.lines

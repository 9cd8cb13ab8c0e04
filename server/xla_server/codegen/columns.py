"""Reductions over anything but the last dimension: rows are added to a row of sums.

One loop for each result would stride through memory. Here a block of neighbouring results is
kept in the result's own memory and every row read is combined into it in one run.
"""

import math
from collections.abc import Sequence

from xla_server.codegen.affine import Affine, Variable
from xla_server.codegen.fold_groups import needed_folds
from xla_server.codegen.graph import Fold, Folded, Load, Store
from xla_server.codegen.nest import Block, Nest, Printer, Source, all_nodes

BLOCK = 1024
"""Neighbouring results of one trip."""


def column_source(nest: Nest) -> Source | None:
    """The kernel's text where its stores are results of folds, and rows are what they read."""
    folds = _folds_of(nest)
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
    if any(not store.kernel_type.is_exact for store in nest.stores):
        return None
    return _ColumnPrinter(nest).printed_columns(folds, BLOCK)


def _step(offset: Affine, loop: Variable) -> int:
    return next((factor for atom, factor in offset.terms if atom is loop), 0)


def _folds_of(nest: Nest) -> list[Fold]:
    """The folds whose results the stores are, if those are all there is, and of one form."""
    results = [store.value for store in nest.stores if isinstance(store.value, Folded)]
    folds = list(dict.fromkeys(result.fold for result in results))
    if len(results) < len(nest.stores) or any(map(needed_folds, folds)):
        return []
    asked = {(result.fold, result.number) for result in results}
    if not len(asked) == len(nest.stores) == sum(len(fold.accumulators) for fold in folds):
        return []
    sizes = {tuple(loop.size for loop in fold.loops) for fold in folds}
    return folds if len(sizes) == 1 and math.prod(*sizes) > 1 else []


class _ColumnPrinter(Printer):
    """Writes, for each block: the initial values, then for each trip of the fold a run over it."""

    def printed_columns(self, folds: Sequence[Fold], size: int) -> Source:
        """The text for blocks of `size` neighbouring results."""
        last = self._nest.loops[-1]
        outer = self._nest.loops[:-1]
        for number in sorted(self._arguments()):
            self._top.add(f"buffer{number} = peek_i64(buffers, {number})")
        blocks = -(-last.size // size)
        trip, low, high = self._fresh("t"), self._fresh("i"), self._fresh("i")
        body = Block(2, self._top)
        body.add(f"{low} = mul(whole_mod({trip}, {blocks}), {size})")
        body.add(f"{high} = minimum(add({low}, {size}), {last.size})")
        rest = self._fresh("t")
        body.add(f"{rest} = whole_div({trip}, {blocks})")
        self._open_outer(outer, rest, body)
        results = [(s, s.value) for s in self._nest.stores if isinstance(s.value, Folded)]
        starts = [(s, self._name(v.fold.initial[v.number])) for s, v in results]
        self._run(last, low, high, body, starts)
        inner, headers = body, []
        loops = folds[0].loops
        for loop in loops:
            inner = Block(inner.depth + 1, inner)
            self._open(loop, inner)
            headers.append((inner, f"for {self._loop_names[loop]} in range({loop.size}):"))
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
        trips = math.prod(loop.size for loop in outer) * blocks
        length = math.prod(loop.size for loop in loops)
        work = min(size, last.size) * length * (2 + len(all_nodes(self._nest.stores)))
        return Source(self._text(trip, body), trips, work)

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

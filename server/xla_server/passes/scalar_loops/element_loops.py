"""Operations that apply a computation no kernel can hold, as loops that call it."""

import math
from collections.abc import Callable, Mapping

from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.passes.framework.editor import Editor, rewrite
from xla_server.passes.framework.rewrite_pass import RewritePass
from xla_server.passes.loops.counted_loop import Values, counted_loop, read_slice
from xla_server.passes.scalar_loops.element_calls import ScalarCallEmitter, ScalarComputations
from xla_server.passes.scalar_loops.scatter_loop import scattered
from xla_server.passes.scalar_loops.sort_loop import sorted_by_insertion
from xla_server.passes.scalar_loops.window_loops import folded_under_windows, selected_and_scattered


def _without_wrappings(module: HloModule) -> bool:
    """Remove instructions that are no-ops on scalars; return whether there was any."""
    editor, changed = Editor(module), False
    calling = (i for i in module.instructions() if i.opcode in _WRITTEN)
    for computation in {called for i in calling for called in i.called}:
        changed |= rewrite(computation, _unwrapped, editor)
    return changed


def _unwrapped(i: HloInstruction) -> HloInstruction | None:
    if i.opcode in (Opcode.ADD_DEPENDENCY, Opcode.DOMAIN, Opcode.OPT_BARRIER):
        return i.operands[0]
    is_element = i.opcode is Opcode.GET_TUPLE_ELEMENT and i.operands[0].opcode is Opcode.TUPLE
    return i.operands[0].operands[i.attributes.index] if is_element else None


def _written_out(
    i: HloInstruction, editor: Editor, scalars: ScalarComputations
) -> HloInstruction | None:
    fits = scalars.fits_loops if i.opcode in _TRACED else scalars.fits_text
    if all(map(fits, i.called)):
        return None
    results = _WRITTEN[i.opcode](i, [ScalarCallEmitter(editor, called) for called in i.called])
    pairs = zip(results, i.shape.leaves(), strict=True)
    found = [editor.convert(result, shape.element_type) for result, shape in pairs]
    return editor.results_as(i, found)


def _map(i: HloInstruction, callers: list[ScalarCallEmitter]) -> Values:
    return callers[0].each(i.operands)


def _reduce(i: HloInstruction, callers: list[ScalarCallEmitter]) -> Values:
    """Expand a reduce: a balanced tree over neighbours, then the initial value from the left."""
    (caller,) = callers
    editor = caller.editor
    arrays, initial = i.operands[: len(i.operands) // 2], i.operands[len(i.operands) // 2 :]
    reduced = i.attributes.dimensions
    sizes = arrays[0].shape.dimensions
    kept = tuple(d for d in range(len(sizes)) if d not in reduced)
    rest = tuple(sizes[d] for d in kept)
    depth = math.prod([sizes[d] for d in reduced])
    types = [parameter.shape.element_type for parameter in caller.computation.parameters]
    start = [
        editor.broadcast(editor.convert(value, kind), (), rest)
        for value, kind in zip(initial, types, strict=False)
    ]
    rows = [
        editor.convert(
            editor.reshape(editor.transpose(array, (*reduced, *kept)), (depth, *rest)), kind
        )
        for array, kind in zip(arrays, types[len(arrays) :], strict=True)
    ]
    if not depth:
        return start
    if types[: len(arrays)] != types[len(arrays) :]:
        # Accumulators of another type than the elements cannot be combined pairwise.
        def body(number: HloInstruction, inputs: Values, totals: Values) -> Values:
            return caller.each([*totals, *(read_slice(editor, array, number) for array in inputs)])

        return counted_loop(editor, i.name, depth, rows, start, body)
    while depth > 1:
        pairs = caller.each(
            [_rows(editor, array, first, depth // 2 * 2, 2) for first in (0, 1) for array in rows]
        )
        if depth % 2:
            last = [_rows(editor, array, depth - 1, depth, 1) for array in rows]
            pairs = [editor.concatenate(parts, 0) for parts in zip(pairs, last, strict=True)]
        rows, depth = pairs, depth // 2 + depth % 2
    return caller.each([*start, *(editor.reshape(array, rest) for array in rows)])


def _rows(
    editor: Editor, array: HloInstruction, first: int, limit: int, step: int
) -> HloInstruction:
    sizes = array.shape.dimensions
    starts = (first, *(0 for _ in sizes[1:]))
    return editor.sliced(array, starts, (limit, *sizes[1:]), (step, *(1 for _ in sizes[1:])))


_WRITTEN: Mapping[Opcode, Callable[[HloInstruction, list[ScalarCallEmitter]], Values]] = {
    Opcode.MAP: _map,
    Opcode.REDUCE: _reduce,
    Opcode.REDUCE_WINDOW: folded_under_windows,
    Opcode.SCATTER: scattered,
    Opcode.SELECT_AND_SCATTER: selected_and_scattered,
    Opcode.SORT: sorted_by_insertion,
}
_TRACED = (Opcode.MAP, Opcode.REDUCE, Opcode.REDUCE_WINDOW)
"""Opcodes that become loop nests; the others have kernels written by hand."""


class ElementLoops(RewritePass):
    """Writes map, reduce, sort and the like as loops if they call more than a formula.

    No kernel can hold a computation on scalars with loops, branches, sorts or random numbers.
    Results are those of the evaluators: elements are combined in the same order.
    """

    name = "element-loops"
    opcodes = _WRITTEN.keys()

    def apply(self, module: HloModule) -> bool:
        """Expand everywhere; return whether anything changed."""
        scalars = ScalarComputations()
        unwrapped = _without_wrappings(module)
        written = self._rewrite(module, lambda _, e: lambda i: _written_out(i, e, scalars))
        return unwrapped or written

"""Rules for operations that combine many elements into one: reduce and reduce-window."""

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from xla_contract.types.dimension_numbers import WindowDimension
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.codegen.functions.bits.narrow_floats import FORMATS
from xla_server.codegen.trace import graph
from xla_server.codegen.trace.elementwise import arithmetic, converted, zero
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.merging import groups_of, indices_in, merged
from xla_server.codegen.trace.tracer import Index, Tracer
from xla_server.ir.analysis.affine import Affine, Variable, variable
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.elementwise.elementwise_table import ROWS
from xla_server.passes.framework.queries import combiner
from xla_server.target.loop_tuning import MAX_UNROLLED_ITERATIONS

_REASSOCIATED: Mapping[tuple[Opcode, str], graph.Reassociation] = {
    (opcode, kind): graph.Reassociation(function, ordered, graph.Immediate.of(kind, *neutral))
    for opcode, kind, function, ordered, neutral in (
        # 0 + -0 is 0, and -0 + -0 is -0.
        (Opcode.ADD, "f32", "add_in_any_order", "add", (1 << 31,)),
        (Opcode.ADD, "f64", "add_in_any_order", "add", (1 << 63,)),
        (Opcode.ADD, "c64", "add_in_any_order", "add_c64", (1 << 31,) * 2),
        (Opcode.ADD, "c128", "add_in_any_order", "add_c128", (1 << 63,) * 2),
        (Opcode.MULTIPLY, "f32", "mul_in_any_order", "mul", (0x3F800000,)),
        (Opcode.MULTIPLY, "f64", "mul_in_any_order", "mul", (0x3FF << 52,)),
    )
}

LONG_WINDOW = 64
"""Elements of a window beyond which even a partly padded one is combined in any order."""


def trace_reduce(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[graph.Node]:
    """A loop over the reduced dimensions."""
    key = (i, index, t.guard)
    reduction = t.reductions.get(key)
    if reduction is None:
        reduction = t.reductions[key] = yield _reduced(t, i, index)
    return _result(t, i, reduction, number)


def _is_unrounded(reducer: HloComputation) -> bool:
    """Return whether a computation is an extreme of narrow floats: one of them, or NaN.

    Numbers of F8E8M0FNU are not all normal ones of F32, as which they are computed.
    """
    is_extreme = combiner(reducer) in (Opcode.MAXIMUM, Opcode.MINIMUM)
    return is_extreme and reducer.root.shape.element_type.text in FORMATS


def _result(t: Tracer, i: HloInstruction, reduction: graph.Reduction, number: int) -> graph.Node:
    """Return a result of a reduction. Rounding gives an unrounded NaN the bits of usual ones."""
    result, (reducer,) = graph.ReductionResult(reduction, number), i.called
    return t.rounded(result, reducer.root.shape.element_type) if _is_unrounded(reducer) else result


def _reduced(t: Tracer, i: HloInstruction, index: Index) -> Deep[graph.Reduction]:
    """Return the loop of a reduction, over as few dimensions as possible."""
    sizes, dimensions = i.operands[0].shape.dimensions, i.attributes.dimensions
    loops: Sequence[Variable] = [t.reduced(sizes[d], "r") for d in sorted(dimensions)]

    def read(point: Iterable[Affine]) -> Deep[list[graph.Node]]:
        kept, reduced = iter(index), iter(point)
        at = [next(reduced) if d in dimensions else next(kept) for d in range(len(sizes))]
        return t.operands(i, len(i.operands) // 2, tuple(at))

    reduction: graph.Reduction
    elements: list[graph.Node] = yield read(map(variable, loops))
    # Unrolled, tests are constant, and an element of a concatenate is that of one operand.
    is_short = math.prod(loop.size for loop in loops) <= MAX_UNROLLED_ITERATIONS
    if is_short and tests(elements, loops):
        points = itertools.product(*(map(Affine, range(loop.size)) for loop in loops))
        read_at = []
        for point in points:
            each: list[graph.Node] = yield read(point)
            read_at.append(each)
        reduction = yield _unrolled(t, i, read_at)
        return reduction
    groups = groups_of(loops, list(indices_in(elements)))
    if len(groups) < sum(loop.size > 1 for loop in loops):
        # One long loop fills its vectors better than several short ones.
        whole, indices = merged(groups)
        elements = yield read([indices.get(loop, Affine(0)) for loop in loops])
        loops = whole
    reduction = yield _reduction_of(t, i, loops, elements, None)
    return reduction


def tests(nodes: Iterable[graph.Node], loops: Collection[Variable]) -> bool:
    """Return whether nodes depend on comparisons of indices that vary with one of `loops`."""

    def varying(nodes: Iterable[graph.Node]) -> list[graph.Node]:
        return [node for node in nodes if not node.variables.isdisjoint(loops)]

    for node in graph.reached(varying(nodes), lambda node: varying(node.inputs())):
        if isinstance(node, graph.Apply) and node.function in ("lt", "ge"):
            operands = (part for part in node.operands if isinstance(part, graph.Position))
            if any(not part.variables.isdisjoint(loops) for part in operands):
                return True
    return False


def trace_reduce_window(
    t: Tracer, i: HloInstruction, index: Index, number: int
) -> Deep[graph.Node]:
    """A loop over the window; padding, and gaps between elements, are skipped."""
    reduction = t.reductions.get((i, index, t.guard))
    if reduction is None:
        window = i.attributes.window.dimensions
        loops = tuple(t.reduced(d.size, "w") for d in window)
        sizes = i.operands[0].shape.dimensions
        guard: graph.Node | None = None
        at = []
        for position, loop, dimension, size in zip(index, loops, window, sizes, strict=True):
            inner, inside = window_position(t, position, variable(loop), dimension, size)
            at.append(inner)
            guard = t.both(guard, inside)
        elements = t.operands(i, len(i.operands) // 2, tuple(at))
        read: list[graph.Node] = yield t.guarded(guard, elements)
        reduction = yield _reduction_of(t, i, loops, read, guard)
        t.reductions[(i, index, t.guard)] = reduction
    return _result(t, i, reduction, number)


def window_position(
    t: Tracer, position: Affine, inner: Affine, dimension: WindowDimension, size: int
) -> tuple[Affine, graph.Node | None]:
    """The base index under a window's element, and a test for its existence (None: always)."""
    if dimension.window_reversal:
        inner = inner * -1 + (dimension.size - 1)
    base = position * dimension.stride + inner * dimension.window_dilation
    step = dimension.base_dilation
    shift = -(-dimension.padding_low // step) if step > 1 else 0
    base = base + (shift * step - dimension.padding_low)
    guard: graph.Node | None = None
    if step > 1:
        rest = base.mod(step)
        if rest.high > 0:
            guard = t.inside(rest, 0, 1)
        base = base.floordiv(step) + -shift
    return base, t.both(guard, t.inside(base, 0, size))


def sum_of(
    t: Tracer, product: graph.Node, loops: tuple[Variable, ...], wide: ElementType
) -> graph.Reduction:
    """The sum of a product over loops, starting from zero."""
    computed = KERNEL_TYPE[wide].computed
    accumulator = graph.Accumulator(computed, loops)
    combined = arithmetic(t, "add", [accumulator, product], wide)
    free = free_order(Opcode.ADD, computed)
    return graph.Reduction(loops, (zero(wide),), (accumulator,), (combined,), free, product)


def _unrolled(
    t: Tracer, i: HloInstruction, elements: Sequence[Sequence[graph.Node]]
) -> Deep[graph.Reduction]:
    """Return a reduction without a loop, which combines elements one after the other."""
    (reducer,) = i.called
    pair: tuple[tuple[graph.Node, ...], list[graph.Node]] = yield _converted(t, i, elements[0])
    initial, _ = pair
    state = initial
    for each in elements:
        pair = yield _converted(t, i, each)
        state = yield t.called(reducer, [*state, *pair[1]])
    accumulators = tuple(graph.Accumulator(node.type, ()) for node in initial)
    return graph.Reduction((), initial, accumulators, state, iterations=len(elements))


def _converted(
    t: Tracer, i: HloInstruction, elements: Sequence[graph.Node]
) -> Deep[tuple[tuple[graph.Node, ...], list[graph.Node]]]:
    """Return the initial values, and elements, in the types of the reducer's parameters."""
    count = len(elements)
    kinds = [part.shape.element_type for part in i.called[0].parameters]
    types = [part.shape.element_type for part in i.operands]
    initial = []
    for n in range(count):
        start: graph.Node = yield t.operand(i, count + n, ())
        initial.append(converted(t, start, types[count + n], kinds[n]))
    read = [converted(t, e, types[n], kinds[count + n]) for n, e in enumerate(elements)]
    return tuple(initial), read


def _reduction_of(
    t: Tracer,
    i: HloInstruction,
    loops: Sequence[Variable],
    elements: Sequence[graph.Node],
    guard: graph.Node | None,
) -> Deep[graph.Reduction]:
    """Return a reduction of `elements` by the instruction's computation.

    If `guard` is false, the accumulators do not change.
    """
    (reducer,) = i.called
    pair: tuple[tuple[graph.Node, ...], list[graph.Node]] = yield _converted(t, i, elements)
    initial, elements = pair
    loops = tuple(loop for loop in loops if loop.size != 1)
    accumulators = tuple(graph.Accumulator(node.type, loops) for node in initial)
    # Accumulators are only defined inside a loop.
    held = accumulators if loops else initial
    opcode = combiner(reducer)
    free = None if opcode is None else free_order(opcode, initial[0].type)
    if free is not None and guard is not None:
        if math.prod(loop.size for loop in loops) > LONG_WINDOW:
            elements, guard = [t.select(guard, elements[0], free.neutral)], None
        else:
            free = None
    combined: tuple[graph.Node, ...]
    if _is_unrounded(reducer):
        # An instruction alone, which LLVM vectorises.
        row = ROWS[reducer.root.opcode]
        combined = (t.apply(row.kernel, [held[0], elements[0]], held[0].type),)
    else:
        combined = yield t.called(reducer, [*held, *elements])
    if guard is not None:
        combined = tuple(t.select(guard, new, old) for new, old in zip(combined, held, strict=True))
    return graph.Reduction(loops, initial, accumulators, tuple(combined), free, elements[0])


def free_order(opcode: Opcode, computed: str) -> graph.Reassociation | None:
    """The Reassociation of an opcode on numbers of a computed type, if there is one."""
    return _REASSOCIATED.get((opcode, computed))

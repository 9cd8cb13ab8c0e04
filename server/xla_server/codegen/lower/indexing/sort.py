"""Lowering of sort and topk: the rows of the sorted dimension one by one, in scratch memory.

If the comparator compares keys, keys with their elements' numbers are sorted by radix. Other
comparators are called by a merge sort. Both are stable.
"""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value as Array
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop, Names, Repeat
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Stop
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.indexing.sort_keys import Key, element_key, key_of
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.routines.indexing.sorting import COUNT_WORDS, KEEP, SORT, SPAN, sorter
from xla_server.codegen.schedules.builders.launches.stopping import is_long
from xla_server.codegen.schedules.builders.scalar_builder import (
    apply_computation,
    evaluate,
    load_element,
)
from xla_server.codegen.trace.graph import Node
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ir.module import HloComputation, HloInstruction

StoreElement: TypeAlias = Callable[[Body, ir.Expression, ir.Expression], None]
"""Function that appends a store, at an index of the result's row, of the element of a number."""


def lower_sort(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add a kernel that sorts the operands' elements by the comparator."""
    results = lowering.results(i)
    shapes = [result.shape for result in results]
    operands = tuple(lowering.array(operand) for operand in i.operands)
    dimension = i.attributes.dimension
    length = shapes[0].dimensions[dimension]
    if length == 1:
        lowering.copy(results, operands)
    elif shapes[0].element_count:
        types = [shape.element_type for shape in shapes]
        inner = math.prod(shapes[0].dimensions[dimension + 1 :])
        key = key_of(i.called[0], types)
        words = 2 * length if key is None else _key_words(key, length)
        rows = shapes[0].element_count // length
        sort = _Sort(lowering, i.name, (operands, results), rows, length, words)
        with sort.rows() as (body, row):
            index = ir.Index(0, ((row, 1),))
            outer = ir.Quotient(index, inner), ir.Remainder(index, inner)
            terms = ((outer[0], length * inner), (outer[1], 1)) if inner > 1 else ((row, length),)
            line = Line(body.let("base", ir.Index(0, terms)), inner, length)

            def store(at: Body, index: ir.Expression, number: ir.Expression) -> None:
                old, new = at.let("old", line.at(number)), at.let("new", line.at(index))
                for n in range(len(types)):
                    sort.move(at, n, new, old)

            if key is None:
                _by_comparator(sort, body, line, i.called[0], store)
            else:
                _by_key(sort, body, line, key, length, store)
        sort.add()
    return results if i.shape.is_tuple else results[0]


def lower_topk(lowering: Lowering, i: HloInstruction) -> Tree:
    """Return the first k elements of each row in the order of their keys, and their indices."""
    shape, k = i.operands[0].shape, i.attributes.k
    results = lowering.results(i)
    if not i.shape.tuple_shapes[0].element_count:
        return results
    length = shape.dimensions[-1]
    key = element_key(shape.element_type, ascending=not i.attributes.largest)
    # An entry sinks through the whole heap: 100 of 1024 take twice as long as a sort.
    in_heap = k <= length // max(8, k.bit_length() ** 2 // 2)
    words = 2 * k if in_heap else _key_words(key, length)
    values = (lowering.array(i.operands[0]),), results
    sort = _Sort(lowering, i.name, values, shape.element_count // length, length, words)
    with sort.rows() as (body, row):
        line = Line(body.let("base", ir.Index(0, ((row, length),))), 1, length)

        def store(at: Body, index: ir.Expression, number: ir.Expression) -> None:
            old = at.let("old", line.at(number))
            new = at.let("new", ir.Index(0, ((row, k), (index, 1))))
            sort.move(at, 0, new, old)
            at.store(sort.results[1], "i32", new, ir.Apply("to_i32", (number,), Type.I32))

        (_by_heap if in_heap else _by_key)(sort, body, line, key, k, store)
    sort.add()
    return results


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """The elements that are sorted together: index of the first one, and the stride."""

    base: ir.Value
    stride: int
    length: int

    def at(self, number: ir.Expression) -> ir.Index:
        """Return the index of an element."""
        return ir.Index(0, ((self.base, 1), (number, self.stride)))


class _Sort:
    """Builder of a kernel with `words` of scratch memory for each work item.

    A work item sorts its rows one after the other.
    """

    def __init__(
        self,
        lowering: Lowering,
        name: str,
        values: tuple[Sequence[Array], Sequence[Array]],
        rows: int,
        length: int,
        words: int,
    ) -> None:
        self._lowering, self._name, self._rows, self._words = lowering, name, rows, words
        tuned = lowering.target.tuning.linear_algebra
        self._each = -(-rows // tuned.row_slots)
        self._items = -(-rows // self._each)
        operands, results = values
        shape = Shape.array(ElementType.S64, (self._items * words,))
        scratch = lowering.new(shape, f"{name}.scratch")
        read = dict.fromkeys(operands)
        self._arguments = [*read, *results, scratch]
        usages = [ir.Usage.READ] * len(read) + [ir.Usage.WRITE] * len(results)
        usages += [ir.Usage.SCRATCH, ir.Usage.FLAG]
        self._buffers = [ir.Buffer(*each) for each in enumerate(usages)]
        self.types = [value.shape.element_type for value in operands]
        self.operands = [self._buffers[self._arguments.index(value)] for value in operands]
        self.results = self._buffers[len(read) : -2]
        self.flag = self._buffers[-1]
        self.names = Names()
        self._top = Body()

    @contextlib.contextmanager
    def rows(self) -> Iterator[tuple[Body, ir.Expression]]:
        """Open the loops over rows."""
        with Items(self._top, self._items) as body:
            ahead = ir.Index(0, ((body.axis, 8 * self._words),))
            address = ir.integer_op("add", ir.Address(self._buffers[-2]), ahead)
            self.scratch = body.let("scratch", address)
            if self._each == 1:
                yield body, body.axis
                return
            first = ir.Index(0, ((body.axis, self._each),))
            end = ir.integer_op("minimum", ir.plus(first, self._each), self._rows)
            with Loop(body, "row", end, first, iterations=self._each) as loop:
                yield loop, loop.axis
                if is_long(Kernel((), (), tuple(loop.statements)), self._each):
                    loop.statements.insert(0, Stop(self.flag))

    def add(self) -> None:
        """Add the kernel to the program."""
        # Vectorisation would gain nothing.
        body = tuple(self._top.statements)
        kernel = Kernel(tuple(self._buffers), (), body, Effort.PLAIN)
        self._lowering.add(kernel_thunk(self._name, kernel, self._arguments))

    def move(self, body: Body, n: int, new: ir.Expression, old: ir.Expression) -> None:
        """Store an element of operand number `n` in the result of that number."""
        storage = KERNEL_TYPE[self.types[n]].storage
        body.store(self.results[n], storage, new, ir.Load(self.operands[n], Type(storage), old))

    def element(self, body: Body, n: int, index: ir.Expression) -> ir.Value:
        """Load the computed value of an element of operand number `n`."""
        return body.let(self.names("e"), load_element(self.types[n], self.operands[n], index))

    def key(self, body: Body, key: Key, index: ir.Expression) -> ir.Expression:
        """Compute the key of an element."""
        known: dict[Node, ir.Expression] = {
            variable: self.element(body, n, index) for n, variable in key.elements.items()
        }
        return evaluate(body, self.names, [key.node], known)[0]


def _key_words(key: Key, length: int) -> int:
    """Return the words of scratch memory that `_by_key` needs."""
    return 2 * _entry_words(key) * length + COUNT_WORDS


def _entry_words(key: Key) -> int:
    """Return the words of an entry: a key of at most four bytes shares one with the number."""
    return 1 if key.bytes <= 4 else 2


def _by_key(sort: _Sort, body: Body, line: Line, key: Key, count: int, store: StoreElement) -> None:
    """Sort entries of keys and numbers by radix, and call `store` for the first `count`."""
    words, length, scratch = _entry_words(key), line.length, sort.scratch
    entries = ir.Region(scratch, ir.Usage.SCRATCH)
    with _each(sort, body, length) as (loop, i):
        found = sort.key(loop, key, line.at(i))
        if words == 1:
            loop.store(entries, "i64", i, ir.Index(0, ((found, 2**32), (i, 1))))
        else:
            loop.store(entries, "i64", ir.Index(0, ((i, 2),)), found)
            loop.store(entries, "i64", ir.Index(1, ((i, 2),)), i)
    order = ir.Value("order", Type.I64)
    workspace, counts = (ir.plus(scratch, 8 * n * words * length) for n in (1, 2))
    memory = {"entries": scratch, "workspace": workspace, "counts": counts}
    operands = {**memory, "length": length, "cancelled": ir.Address(sort.flag)}
    body.call(sorter(words, key.bytes), operands, (order,))
    # Entries that were not sorted have no valid numbers.
    body.add(Stop(sort.flag))
    sorted_entries = ir.Region(order, ir.Usage.SCRATCH)
    with _each(sort, body, count) as (loop, i):
        if words == 1:
            entry = ir.Load(sorted_entries, Type.I64, i)
            number = loop.let("number", ir.integer_op("bit_and", entry, 2**32 - 1))
        else:
            number = loop.let("number", ir.Load(sorted_entries, Type.I64, ir.Index(1, ((i, 2),))))
        store(loop, i, number)


def _by_heap(
    sort: _Sort, body: Body, line: Line, key: Key, count: int, store: StoreElement
) -> None:
    """Keep only the entries of the first `count`, in a heap, and call `store` for them."""
    heap = ir.Region(sort.scratch, ir.Usage.SCRATCH)
    limit = body.declare("limit", ir.Index(0))
    with Loop(body, sort.names("i"), line.length) as loop:
        if line.length > SPAN:
            _poll(sort, loop, loop.axis)
        found = sort.key(loop, key, line.at(loop.axis))
        is_free = ir.condition("lt", loop.axis, count)
        is_less = ir.condition("lt", found, limit)
        with Branch(loop, ir.condition("bit_or", is_free, is_less)) as branch:
            entry = {"key": found, "seen": loop.axis}
            branch.call(KEEP, {"heap": sort.scratch, "count": count, **entry})
            branch.set(limit, ir.Load(heap, Type.I64, ir.Index(0)))
    body.call(SORT, {"heap": sort.scratch, "count": count, "cancelled": ir.Address(sort.flag)})
    with _each(sort, body, count) as (loop, i):
        number = loop.let("number", ir.Load(heap, Type.I64, ir.Index(1, ((i, 2),))))
        store(loop, i, number)


def _by_comparator(
    sort: _Sort, body: Body, line: Line, comparator: HloComputation, store: StoreElement
) -> None:
    """Merge sort: the right run's element goes first only if the comparator says so."""
    length = line.length
    order = body.declare("order", sort.scratch)
    other = body.declare("other", ir.plus(sort.scratch, 8 * length))
    entries = ir.Region(order, ir.Usage.SCRATCH)
    with Loop(body, sort.names("i"), length) as loop:
        loop.store(entries, "i64", loop.axis, loop.axis)
    width = body.declare("width", ir.Index(1))
    passes = math.ceil(math.log2(length))
    with Repeat(body, ir.condition("lt", width, length), passes) as merged:
        begin = merged.declare("begin", ir.Index(0))
        with Repeat(merged, ir.condition("lt", begin, length), length / passes) as pair:
            _merge(sort, pair, line, comparator, (order, other, begin, width))
            pair.set(begin, ir.Index(0, ((begin, 1), (width, 2))))
        merged.set(width, ir.Index(0, ((width, 2),)))
        before = merged.let("before", order)
        merged.set(order, other)
        merged.set(other, before)
    with _each(sort, body, length) as (loop, i):
        store(loop, i, loop.let("number", ir.Load(entries, Type.I64, i)))


def _merge(
    sort: _Sort,
    body: Body,
    line: Line,
    comparator: HloComputation,
    cells: tuple[ir.Cell, ir.Cell, ir.Cell, ir.Cell],
) -> None:
    """Merge two runs of the memory `order` into one of the memory `other`."""
    order, other, begin, width = cells
    source, target = ir.Region(order, ir.Usage.SCRATCH), ir.Region(other, ir.Usage.SCRATCH)
    left = body.declare("left", begin)
    middle, high = (
        body.let(name, ir.integer_op("minimum", ir.Index(0, ((begin, 1), (width, n))), line.length))
        for name, n in (("middle", 1), ("high", 2))
    )
    right = body.declare("right", middle)
    to = body.declare("to", begin)
    has_left, has_right = (ir.condition("lt", *each) for each in ((left, middle), (right, high)))

    def append(branch: Body, run: ir.Cell, number: ir.Expression) -> None:
        branch.store(target, "i64", to, number)
        branch.set(run, ir.plus(run, 1))

    # The mean length of runs over all passes.
    entries = math.log2(line.length)
    with Repeat(body, ir.condition("bit_and", has_left, has_right), entries) as both:
        # A pass stores each entry once: the test is executed once for every SPAN entries.
        if line.length > SPAN:
            _poll(sort, both, to)
        numbers = [
            both.let(name, ir.Load(source, Type.I64, run))
            for name, run in (("left_number", left), ("right_number", right))
        ]
        indices = [both.let(sort.names("at"), line.at(number)) for number in numbers]
        a, b = (
            [sort.element(both, n, index) for n in range(len(sort.types))]
            for index in reversed(indices)
        )
        pairs = [
            (each, kind) for *pair, kind in zip(a, b, sort.types, strict=True) for each in pair
        ]
        (is_before,) = apply_computation(both, sort.names, comparator, pairs, [ElementType.PRED])
        with Branch(both, is_before) as branch:
            append(branch, right, numbers[1])
            append(branch.orelse, left, numbers[0])
        both.set(to, ir.plus(to, 1))
    for run, has_more in ((left, has_left), (right, has_right)):
        with Repeat(body, has_more, entries / 2) as rest:
            append(rest, run, ir.Load(source, Type.I64, run))
            rest.set(to, ir.plus(to, 1))


def _poll(sort: _Sort, body: Body, number: ir.Expression) -> None:
    """Poll the cancellation flag at each SPAN-th `number`."""
    is_time = ir.condition("eq", ir.integer_op("bit_and", number, SPAN - 1), 0)
    with Branch(body, is_time) as branch:
        branch.add(Stop(sort.flag))


@contextlib.contextmanager
def _each(sort: _Sort, body: Body, count: int) -> Iterator[tuple[Body, ir.Value]]:
    """Open a loop over an index that polls cancellation every SPAN iterations, if it has more.

    Some iterations may be repeated: the last span is as long as the others, because LLVM compiles
    loops of one length in less time.
    """
    name = sort.names("i")
    if count <= SPAN:
        with Loop(body, name, count) as loop:
            yield loop, loop.axis
        return
    with Loop(body, sort.names("begin"), count, step=SPAN) as spans:
        spans.add(Stop(sort.flag))
        first = spans.let(sort.names("first"), ir.integer_op("minimum", spans.axis, count - SPAN))
        with Loop(spans, sort.names("n"), SPAN) as loop:
            yield loop, loop.let(name, ir.integer_op("add", first, loop.axis))

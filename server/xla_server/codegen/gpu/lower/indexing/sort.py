"""Lowering of sort and topk for a GPU: passes of a merge sort, and one kernel that moves elements.

If the comparator compares keys, keys with the numbers of their elements are sorted, else numbers
alone, whose elements each comparison loads. All sorts are stable.

Threads merge independently, so with a comparator that is no strict weak order several may take the
same element. Lines that then lack one keep their order.
"""

import math
from collections.abc import Sequence

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value as Array
from xla_server.codegen.gpu.lower.indexing.merge_sort import MergeSort
from xla_server.codegen.gpu.lower.indexing.merging import (
    Before,
    Entry,
    Load,
    by_first_part,
    integer_type,
)
from xla_server.codegen.gpu.lower.thunks.thread_thunks import ThreadKernel
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.indexing.sort_keys import Key, element_key, key_of
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.schedules.builders.scalar_builder import (
    apply_computation,
    evaluate,
    load_element,
)
from xla_server.codegen.trace.graph import Node
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ir.module import HloComputation, HloInstruction


def lower_sort(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add kernels that sort the operands' elements by the comparator."""
    results = lowering.results(i)
    shapes = [result.shape for result in results]
    operands = tuple(lowering.array(operand) for operand in i.operands)
    dimension = i.attributes.dimension
    sizes, length = shapes[0].dimensions, shapes[0].dimensions[dimension]
    if length == 1:
        lowering.copy(results, operands)
    elif shapes[0].element_count:
        lines = _Lines(math.prod(sizes[:dimension]), length, math.prod(sizes[dimension + 1 :]))
        sort = _Sort(lowering, i.name, operands, lines)
        key = key_of(i.called[0], [shape.element_type for shape in shapes])
        order = sort.by_comparator(i.called[0]) if key is None else sort.by_key(key)
        sort.move(order, results, length)
    return results if i.shape.is_tuple else results[0]


def lower_topk(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add kernels for the first k elements of each line by key, and their indices."""
    shape, k = i.operands[0].shape, i.attributes.k
    results = lowering.results(i)
    if results[0].shape.element_count:
        length = shape.dimensions[-1]
        lines = _Lines(shape.element_count // length, length, 1)
        sort = _Sort(lowering, i.name, (lowering.array(i.operands[0]),), lines)
        key = element_key(shape.element_type, ascending=not i.attributes.largest)
        sort.move(sort.by_key(key, k), results[:1], k, results[1])
    return results


class _Lines:
    """Lines along the second of three dimensions."""

    def __init__(self, outer: int, length: int, inner: int) -> None:
        self.count, self.length, self.inner = outer * inner, length, inner

    def split(self, kernel: ThreadKernel, body: Items) -> tuple[ir.Value, ir.Value]:
        """Return the line of a work item, and the number of its element there."""
        item = ir.Index(0, ((body.axis, 1),))
        line, number = ir.Quotient(item, self.length), ir.Remainder(item, self.length)
        return body.let(kernel.names("line"), line), body.let(kernel.names("position"), number)

    def element(self, line: ir.Expression, number: ir.Expression) -> ir.Index:
        """Return the index of an element of a line."""
        if self.inner == 1:
            return ir.Index(0, ((line, self.length), (number, 1)))
        index = ir.Index(0, ((line, 1),))
        outer, inner = ir.Quotient(index, self.inner), ir.Remainder(index, self.inner)
        return ir.Index(0, ((outer, self.length * self.inner), (number, self.inner), (inner, 1)))


class _Sort:
    """Builder of the kernels of a sort."""

    def __init__(
        self, lowering: Lowering, name: str, operands: Sequence[Array], lines: _Lines
    ) -> None:
        self._lowering, self._name = lowering, name
        self._operands, self._lines = operands, lines
        self._number = integer_type(lines.length)
        self._broken: Array | None = None

    def by_key(self, key: Key, first: int | None = None) -> Array | None:
        """Add the sort of keys; return the order of elements, None if it is unchanged.

        If only the `first` elements of each line are read, the order may have no others.
        """
        kind = ElementType.S32 if key.bytes <= 4 else ElementType.S64

        def load(
            kernel: ThreadKernel, body: Body, line: ir.Expression, number: ir.Expression
        ) -> Entry:
            at = body.let(kernel.names("at"), self._lines.element(line, number))
            known: dict[Node, ir.Expression] = {
                variable: self._element(kernel, body, n, at) for n, variable in key.elements.items()
            }
            (found,) = evaluate(body, kernel.names, [key.node], known)
            return body.let(kernel.names("key"), found), number

        return self._sorted((kind, self._number), by_first_part, load, first)

    def by_comparator(self, comparator: HloComputation) -> Array | None:
        """Add the sort of numbers by the elements they have; return them in their order."""
        types = [value.shape.element_type for value in self._operands]

        def load(
            kernel: ThreadKernel, body: Body, line: ir.Expression, number: ir.Expression
        ) -> Entry:
            return (number,)

        def before(
            kernel: ThreadKernel, body: Body, line: ir.Expression, first: Entry, second: Entry
        ) -> ir.Expression:
            at = [
                body.let(kernel.names("at"), self._lines.element(line, number))
                for (number,) in (first, second)
            ]
            pairs = [
                (self._element(kernel, body, n, index), kind)
                for n, kind in enumerate(types)
                for index in at
            ]
            (found,) = apply_computation(body, kernel.names, comparator, pairs, [ElementType.PRED])
            return found

        order = self._sorted((self._number,), before, load)
        if order is not None:
            self._add_check(order)
        return order

    def _add_check(self, order: Array) -> None:
        """Add the kernels that say of which lines an order lacks an element.

        Threads that write one element write the same number, in any order.
        """
        lines = self._lines
        count = lines.count * lines.length
        seen, broken = (
            self._lowering.new(Shape.array(ElementType.S32, (size,)), f"{self._name}.{name}")
            for name, size in (("seen", count), ("broken", lines.count))
        )
        kernel = ThreadKernel(f"{self._name}.clear")
        with Items(kernel.top, count) as body:
            line, position = lines.split(kernel, body)
            kernel.store_integer(body, seen, body.axis, ir.Index(0))
            with Branch(body, ir.condition("eq", position, 0)) as first:
                kernel.store_integer(first, broken, line, ir.Index(0))
        self._lowering.add(kernel.thunk())
        kernel = ThreadKernel(f"{self._name}.seen")
        kernel.updates(seen)
        with Items(kernel.top, count) as body:
            line, _ = lines.split(kernel, body)
            number = body.let("number", kernel.load_integer(order, body.axis))
            at = ir.Index(0, ((line, lines.length), (number, 1)))
            kernel.store_integer(body, seen, at, ir.Index(1))
        self._lowering.add(kernel.thunk())
        kernel = ThreadKernel(f"{self._name}.broken")
        kernel.updates(broken)
        with Items(kernel.top, count) as body:
            line, _ = lines.split(kernel, body)
            is_lost = ir.condition("eq", kernel.load_integer(seen, body.axis), 0)
            with Branch(body, is_lost) as lost:
                kernel.store_integer(lost, broken, line, ir.Index(1))
        self._lowering.add(kernel.thunk())
        self._broken = broken

    def _sorted(
        self, types: Sequence[ElementType], before: Before, load: Load, first: int | None = None
    ) -> Array | None:
        lines = self._lines
        sort = MergeSort(self._lowering, self._name, lines.count, lines.length, types, before)
        return sort.add(load, first)[-1] if lines.length > 1 else None

    def _element(
        self, kernel: ThreadKernel, body: Body, n: int, at: ir.Expression
    ) -> ir.Expression:
        value = self._operands[n]
        element = load_element(value.shape.element_type, kernel.reads(value), at)
        return body.let(kernel.names("e"), element)

    def move(
        self,
        order: Array | None,
        results: Sequence[Array],
        count: int,
        numbers: Array | None = None,
    ) -> None:
        """Add the kernel that stores the first `count` elements of each line, and their numbers."""
        kernel, lines = ThreadKernel(self._name), self._lines
        with Items(kernel.top, lines.count * count) as body:
            item, inner = ir.Index(0, ((body.axis, 1),)), lines.inner
            row = body.let("row", ir.Quotient(item, inner)) if inner > 1 else body.axis
            index = ir.Index(0, ((row, 1),))
            position = body.let("position", ir.Remainder(index, count))
            line = body.let("outer", ir.Quotient(index, count))
            if inner > 1:
                line = body.let(
                    "line", ir.Index(0, ((line, inner), (ir.Remainder(item, inner), 1)))
                )
            number: ir.Expression = position
            if order is not None:
                ordered = order.shape.element_count // lines.count
                at = ir.Index(0, ((line, ordered), (position, 1)))
                number = body.let("number", kernel.load_integer(order, at))
            if self._broken is not None:
                is_whole = ir.condition("eq", kernel.load_integer(self._broken, line), 0)
                either = ir.Apply("select", (is_whole, number, position), Type.I64)
                number = body.let("moved", either)
            old = body.let("old", lines.element(line, number))
            for result, operand in zip(results, self._operands, strict=True):
                storage = Type(KERNEL_TYPE[operand.shape.element_type].storage)
                element = ir.Load(kernel.reads(operand), storage, old)
                body.store(kernel.writes(result), storage, body.axis, element)
            if numbers is not None:
                kernel.store_integer(body, numbers, body.axis, number)
        self._lowering.add(kernel.thunk())

"""Kernels of a merge sort on a GPU: passes that merge two runs into one of twice their length.

A thread finds by bisection where its part of the merged run begins in both runs, and merges some
elements from there. The right run's element goes first only if it comes before that of the left:
the sort is stable. Each of log2(n) passes is a launch, and compares an element once, and for each
part as often as the bisection does: n log2(n) (1 + log2(n) / 16) comparisons in the mean.

Threads read elements of their runs and store to numbers of their own whatever a comparator says:
of one that is no strict weak order, results have elements of the line, some perhaps repeatedly.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value as Array
from xla_server.codegen.gpu.lower.thread_thunks import ThreadKernel
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop, Repeat
from xla_server.codegen.kernel_ir.expressions import (
    Apply,
    Cell,
    Expression,
    Index,
    Quotient,
    Remainder,
    condition,
    integer_op,
    opaque,
    plus,
)
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.lowering import Lowering

MERGED = 8
"""Elements that a thread merges: those of a pair of runs where these are shorter."""

Entry: TypeAlias = Sequence[Expression]
"""The parts of what is sorted, integers as they are computed."""

Load: TypeAlias = Callable[[ThreadKernel, Body, Expression, Expression], Entry]
"""Returns the entry of a number in a line."""

Before: TypeAlias = Callable[[ThreadKernel, Body, Expression, Entry, Entry], Expression]
"""Returns whether, in a line, the first of two entries comes before the second."""


@dataclasses.dataclass(frozen=True, slots=True)
class MergeSort:
    """The sort of `lines` of `length` entries, which is at least two.

    `types` are those of an entry's parts in memory, integers of 32 or 64 bits.
    """

    lowering: Lowering
    name: str
    lines: int
    length: int
    types: Sequence[ElementType]
    before: Before

    def add(self, load: Load) -> Sequence[Array]:
        """Add the passes; return the parts of sorted entries, line after line."""
        arrays: list[Array] = []
        width = 1
        while width < self.length:
            arrays = self._add_pass(width, load)
            load = self._loader(arrays)
            width *= 2
        return arrays

    def _loader(self, arrays: Sequence[Array]) -> Load:
        def load(kernel: ThreadKernel, body: Body, line: Expression, number: Expression) -> Entry:
            at = body.let(kernel.names("at"), self._at(line, number))
            return [body.let(kernel.names("e"), kernel.load_integer(a, at)) for a in arrays]

        return load

    def _at(self, line: Expression, number: Expression) -> Index:
        return Index(0, ((line, self.length), (number, 1)))

    def _add_pass(self, width: int, load: Load) -> list[Array]:
        count, name = self.lines * self.length, f"{self.name}.runs.{2 * width}"
        made = [
            self.lowering.new(Shape.array(kind, (count,)), f"{name}.{n}")
            for n, kind in enumerate(self.types)
        ]
        kernel, length = ThreadKernel(name), self.length
        merged = min(MERGED, 2 * width)
        each = -(-length // merged)
        with Items(kernel.top, self.lines * each) as body:
            item = Index(0, ((body.axis, 1),))
            line = body.let("line", Quotient(item, each))
            first = body.let("first", Index(0, ((Remainder(item, each), merged),)))
            run = _Pair(kernel, body, line, first, width, length)
            left, right = run.begin(body, lambda b, n: load(kernel, b, line, n), self.before)
            rest = integer_op("minimum", Index(length, ((first, -1),)), opaque(merged))
            with Loop(body, "n", rest, iterations=merged) as loop:
                entries = [
                    load(kernel, loop, line, loop.let("own", integer_op("minimum", n, length - 1)))
                    for n in (left, right)
                ]
                is_before = self.before(kernel, loop, line, entries[1], entries[0])
                is_alone = condition("ge", left, run.middle)
                has_right = condition("lt", right, run.high)
                takes = loop.let(
                    "takes",
                    condition("bit_and", has_right, condition("bit_or", is_before, is_alone)),
                )
                index = loop.let("to", Index(0, ((line, length), (first, 1), (loop.axis, 1))))
                for array, *pair in zip(made, *reversed(entries), strict=True):
                    chosen = Apply("select", (takes, *pair), Type.I64)
                    kernel.store_integer(loop, array, index, chosen)
                one = loop.let("one", integer_op("to_i64", takes))
                loop.set(left, Index(1, ((left, 1), (one, -1))))
                loop.set(right, Index(0, ((right, 1), (one, 1))))
        self.lowering.add(kernel.thunk())
        return made


class _Pair:
    """Two neighbouring runs of a pass, and where a part of what they merge to begins in them."""

    def __init__(
        self,
        kernel: ThreadKernel,
        body: Body,
        line: Expression,
        first: Expression,
        width: int,
        length: int,
    ) -> None:
        """`first` is the number of the part's first element in the line."""
        self._kernel, self._line = kernel, line
        pair = Index(0, ((Quotient(Index(0, ((first, 1),)), 2 * width), 2 * width),))
        self._low = body.let("low", pair)
        self.middle = body.let("middle", integer_op("minimum", plus(self._low, width), length))
        self.high = body.let("high", integer_op("minimum", plus(self._low, 2 * width), length))
        self._ahead = body.let("ahead", Index(0, ((first, 1), (self._low, -1))))
        self._passes = max(1, width.bit_length())

    def begin(
        self, body: Body, load: Callable[[Body, Expression], Entry], before: Before
    ) -> tuple[Cell, Cell]:
        """Return the numbers of the elements of both runs that the part begins with.

        The left run has `taken` of the elements `ahead`.
        """
        ahead = self._ahead
        behind = Index(0, ((ahead, 1), (self.high, -1), (self.middle, 1)))
        taken = body.declare("taken", integer_op("maximum", body.let("b", behind), 0))
        size = body.let("size", Index(0, ((self.middle, 1), (self._low, -1))))
        most = body.declare("most", integer_op("minimum", ahead, size))
        with Repeat(body, condition("lt", taken, most), self._passes) as loop:
            half = loop.let("half", Quotient(Index(0, ((taken, 1), (most, 1))), 2))
            left = load(loop, loop.let("l", Index(0, ((self._low, 1), (half, 1)))))
            at = Index(-1, ((self.middle, 1), (ahead, 1), (half, -1)))
            right = load(loop, loop.let("r", at))
            with Branch(loop, before(self._kernel, loop, self._line, right, left)) as branch:
                branch.set(most, half)
                branch.orelse.set(taken, plus(half, 1))
        terms = ((self._low, 1), (taken, 1)), ((self.middle, 1), (ahead, 1), (taken, -1))
        first, second = (Index(0, each) for each in terms)
        return body.declare("left", first), body.declare("right", second)


def integer_type(count: int) -> ElementType:
    """Return the type of numbers below a count."""
    return ElementType.S32 if count < 1 << 31 else ElementType.S64

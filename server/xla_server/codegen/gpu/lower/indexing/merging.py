"""The merge of two runs by threads of a GPU: each finds the start of its part by binary search.

The right run's entry goes first only if it compares before the left's, so that sorts are stable.
Threads read entries of their runs and store to their own positions for any comparator: if it is no
strict weak order, results are entries of the line, some perhaps repeated.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

from xla_contract.types.element_type import ElementType
from xla_server.codegen.gpu.lower.thunks.thread_thunks import ThreadKernel
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch, Loop, Repeat
from xla_server.codegen.kernel_ir.types import Type

MERGED = 8
"""Entries that a thread merges."""

Entry: TypeAlias = Sequence[ir.Expression]
"""The parts of a sorted entry, as integers."""

Load: TypeAlias = Callable[[ThreadKernel, Body, ir.Expression, ir.Expression], Entry]
"""Returns the entry of a number in a line."""

Before: TypeAlias = Callable[[ThreadKernel, Body, ir.Expression, Entry, Entry], ir.Expression]
"""Returns whether the first of two entries of a line precedes the second."""


def by_first_part(
    kernel: ThreadKernel, body: Body, line: ir.Expression, first: Entry, second: Entry
) -> ir.Expression:
    """Return whether the first parts of two entries are in ascending order."""
    return ir.condition("lt", first[0], second[0])


@dataclasses.dataclass(frozen=True, slots=True)
class Merge:
    """The merge of two neighbouring runs, of which a thread stores some entries."""

    kernel: ThreadKernel
    line: ir.Expression
    load: Callable[[Body, ir.Expression], Entry]
    store: Callable[[Body, ir.Expression, Entry], None]
    before: Before

    def add(
        self,
        body: Body,
        first: ir.Expression,
        runs: tuple[ir.Expression, ...],
        count: int | ir.Expression,
    ) -> None:
        """Store entries from number `first` on; `runs` has the bounds of the two runs.

        Numbers of entries are below `count`; beyond it nothing is stored.
        """
        _, middle, high = runs
        left, right = self._begun(body, first, runs)
        names = self.kernel.names
        rest = ir.integer_op("minimum", ir.integer_op("sub", count, first), ir.opaque(MERGED))
        last = body.let(names("last"), ir.plus(count, -1))
        with Loop(body, names("n"), rest, iterations=MERGED) as loop:
            entries = [
                self.load(loop, loop.let(names("own"), ir.integer_op("minimum", number, last)))
                for number in (left, right)
            ]
            is_before = self.before(self.kernel, loop, self.line, entries[1], entries[0])
            is_alone = ir.condition("ge", left, middle)
            is_first = ir.condition("bit_or", is_before, is_alone)
            is_right = ir.condition("bit_and", ir.condition("lt", right, high), is_first)
            from_right = loop.let(names("from_right"), is_right)
            entry = [
                loop.let(names("e"), ir.Apply("select", (from_right, *pair), Type.I64))
                for pair in zip(entries[1], entries[0], strict=True)
            ]
            self.store(loop, ir.Index(0, ((first, 1), (loop.axis, 1))), entry)
            one = loop.let(names("one"), ir.integer_op("to_i64", from_right))
            loop.set(left, ir.Index(1, ((left, 1), (one, -1))))
            loop.set(right, ir.Index(0, ((right, 1), (one, 1))))

    def _begun(
        self, body: Body, first: ir.Expression, runs: tuple[ir.Expression, ...]
    ) -> tuple[ir.Cell, ir.Cell]:
        """Return the numbers in both runs that the entries from `first` on begin with.

        The left run has `from_left` of the entries `ahead`.
        """
        low, middle, high = runs
        names = self.kernel.names
        ahead = body.let(names("ahead"), ir.Index(0, ((first, 1), (low, -1))))
        behind = ir.Index(0, ((ahead, 1), (high, -1), (middle, 1)))
        size = ir.Index(0, ((middle, 1), (low, -1)))
        from_left = body.declare(names("from_left"), ir.integer_op("maximum", behind, 0))
        most = body.declare(names("most"), ir.integer_op("minimum", ahead, size))
        with Repeat(body, ir.condition("lt", from_left, most), 8) as loop:
            half = loop.let(names("half"), ir.Quotient(ir.Index(0, ((from_left, 1), (most, 1))), 2))
            at = ir.Index(0, ((low, 1), (half, 1)))
            left = self.load(loop, loop.let(names("l"), at))
            at = ir.Index(-1, ((middle, 1), (ahead, 1), (half, -1)))
            right = self.load(loop, loop.let(names("r"), at))
            with Branch(loop, self.before(self.kernel, loop, self.line, right, left)) as branch:
                branch.set(most, half)
                branch.orelse.set(from_left, ir.plus(half, 1))
        terms = ((low, 1), (from_left, 1)), ((middle, 1), (ahead, 1), (from_left, -1))
        begins = [ir.Index(0, each) for each in terms]
        return body.declare(names("left"), begins[0]), body.declare(names("right"), begins[1])


def integer_type(count: int) -> ElementType:
    """Return the type of numbers below a count."""
    return ElementType.S32 if count < 1 << 31 else ElementType.S64

"""Lowering of running sums, products, maxima: reduce-windows that are scans, in one pass.

Sums and products of floats accumulate in double, as a long sequence adds up many rounding errors,
and sums of doubles with compensation. Along the last dimension each row is a work item. Along
others it is a block of neighbours, whose running values are in scratch memory, so that memory is
read in order.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Items, Loop, Names
from xla_server.codegen.lower.kernel_thunks import watched_thunk
from xla_server.codegen.lower.loop_nests.loop_lowering import lower_loop
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.schedules.builders.launches.stopping import SPAN, watched_loop
from xla_server.codegen.schedules.builders.scalar_builder import (
    Named,
    element_variable,
    evaluate,
    load_element,
    store_element,
)
from xla_server.codegen.trace.elementwise import converted, literal
from xla_server.codegen.trace.graph import Node
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Tracer
from xla_server.fusion.analysis.windows import is_backwards, running_axis
from xla_server.ir.module import HloInstruction
from xla_server.ops.elementwise.elementwise_table import ROWS
from xla_server.ops.numerics.scalar_function import recognise

_ZERO = literal(np.float64(0), ElementType.F64)
_NEUTRAL = literal(np.float64(-0.0), ElementType.F64)
"""The neutral element of addition: x + -0 is x for every x."""


def lower_reduce_window(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add a kernel of one pass for a running window, else a loop over each window."""
    axis = running_axis(i)
    if axis is None or not i.operands[0].shape.element_count:
        return lower_loop(lowering, i)
    results = lowering.results(i)
    values = [lowering.array(operand) for operand in i.operands]
    step = step_of(i)
    sizes = results[0].shape.dimensions
    length, inner = sizes[axis], math.prod(sizes[axis + 1 :])
    outer = results[0].shape.element_count // (length * inner)
    running = [
        lowering.new(Shape.array(kind, (outer * inner,)), f"{i.name}.running.{n}")
        for n, kind in enumerate(step.types)
        if inner > 1
    ]
    columns = lowering.target.tuning.linear_algebra.scan_columns
    items = outer * -(-inner // columns) if inner > 1 else outer
    types = [value.shape.element_type for value in (*values, *results)]

    def build(top: Body, buffers: Mapping[Value, ir.Buffer], flag: ir.Buffer | None) -> None:
        memory = [buffers[value] for value in (*values, *results, *running)]
        shape = length, inner, columns
        _Scan(step, top, memory, types, flag, shape, is_backwards(i, axis)).build(items)

    lowering.add(watched_thunk(i.name, values, (*results, *running), build))
    return results if i.shape.is_tuple else results[0]


@dataclasses.dataclass(frozen=True, slots=True)
class ScanStep:
    """Step of running values of these types, as graphs over variables.

    Scans start from `starts`, the `initial` values in the reducer's types. `begin` computes the
    first running values and `advance` the next ones, from `running` and `new` elements; `outputs`
    computes results from `running`. `join` combines the values of two parts of a line, `running`
    and `behind`; it is empty if the reducer is not known to be associative.
    """

    types: tuple[ElementType, ...]
    init_values: Sequence[Named]
    initial: Sequence[Node]
    starts: Sequence[Named]
    new: Sequence[Named]
    running: Sequence[Named]
    begin: Sequence[Node]
    advance: Sequence[Node]
    outputs: Sequence[Node]
    behind: Sequence[Named]
    join: Sequence[Node]


def step_of(i: HloInstruction) -> ScanStep:
    """Return the step of a running window."""
    t = Tracer(RULES, {})
    (reducer,) = i.called
    count = len(i.operands) // 2
    own = [operand.shape.element_type for operand in i.operands]
    kinds = [parameter.shape.element_type for parameter in reducer.parameters]
    known = recognise(reducer) is not None
    if known:
        kinds = [_wide(reducer.root.opcode, kinds[0])] * 2

    def variables(name: str, types: Sequence[ElementType]) -> list[Named]:
        return [element_variable(f"{name}{n}", kind) for n, kind in enumerate(types)]

    new, init_values = variables("new", own[:count]), variables("init", own[count:])
    elements = [converted(t, new[n], own[n], kinds[count + n]) for n in range(count)]
    initial = [converted(t, init_values[n], own[count + n], kinds[n]) for n in range(count)]
    starts = [Named(f"start{n}", node.type) for n, node in enumerate(initial)]

    def combined(left: Sequence[Node], right: Sequence[Node]) -> Sequence[Node]:
        if not known:
            return t.call(reducer, [*left, *right])
        computed = KERNEL_TYPE[kinds[0]].computed
        function = ROWS[reducer.root.opcode].kernel_function(kinds[0], computed)
        return [t.rounded(t.apply(function, [*left, *right], computed), kinds[0])]

    # A recognised reducer combines the initial value last, so that a sum does not depend on the
    # start.
    types = tuple(kinds[:count])
    first = elements if known else combined(starts, elements)
    running = variables("run", types)
    advanced: Sequence[Node] = combined(running, elements)
    made: Sequence[Node] = running
    behind = variables("behind", types)
    joined = combined(running, behind) if known else ()
    is_double = reducer.root.shape.element_type in (ElementType.F64, ElementType.C128)
    if known and reducer.root.opcode is Opcode.ADD and is_double:
        parts = _parts(t, elements[0])
        types = (ElementType.F64,) * (2 * len(parts))
        first = [node for part in parts for node in (part, _NEUTRAL)]
        running, behind = (variables(name, types) for name in ("run", "behind"))
        pairs, others = (
            list(zip(values[::2], values[1::2], strict=True)) for values in (running, behind)
        )
        advanced = [
            node
            for (total, error), part in zip(pairs, parts, strict=True)
            for node in _exact_sum(t, total, error, part)
        ]
        joined = [
            node
            for pair, (total, error) in zip(pairs, others, strict=True)
            for node in _joined_sums(t, pair, total, error)
        ]
        sums = [t.apply("add", pair, "f64") for pair in pairs]
        made = sums if len(sums) == 1 else [t.apply("complex_f64", sums, "c128")]
    final = combined(starts, made) if known else made
    wanted = [shape.element_type for shape in i.shape.leaves()]
    outputs = [converted(t, *each) for each in zip(final, kinds[:count], wanted, strict=True)]
    before = types, init_values, initial, starts, new, running
    return ScanStep(*before, first, advanced, outputs, behind, joined)


def _parts(t: Tracer, element: Node) -> list[Node]:
    """Return the doubles that represent a number: one, or two of a complex one."""
    if element.type != "c128":
        return [element]
    return [t.apply(f"{part}_c128", [element], "f64") for part in ("real", "imag")]


def _exact_sum(t: Tracer, total: Node, error: Node, part: Node) -> tuple[Node, Node]:
    """Return the rounded sum of a total and a number, and the accumulated rounding error."""

    def apply(function: str, *operands: Node) -> Node:
        return t.apply(function, operands, "f64")

    rounded = apply("add", total, part)
    added = apply("sub", rounded, total)
    rest = apply(
        "add", apply("sub", total, apply("sub", rounded, added)), apply("sub", part, added)
    )
    # Not if the sum is infinite; and an error of 0 must keep the sign of a sum of -0.
    is_inexact = t.apply("gt", [apply("absolute", rest), _ZERO], "b1")
    corrected = apply("add", error, rest)
    return rounded, t.apply("select", [is_inexact, corrected, error], "f64")


def _joined_sums(
    t: Tracer, first: tuple[Node, Node], total: Node, error: Node
) -> tuple[Node, Node]:
    """Return the sum of two sums, each a total and its rounding error."""
    rounded, rest = _exact_sum(t, *first, total)
    return rounded, t.apply("add", [rest, error], "f64")


def _wide(opcode: Opcode, element_type: ElementType) -> ElementType:
    if opcode in (Opcode.ADD, Opcode.MULTIPLY):
        if element_type.is_floating:
            return ElementType.F64
        if element_type.is_complex:
            return ElementType.C128
    return element_type


class _Scan:
    """Builder of a scan's kernel in the body `top`.

    `memory` and `types` are those of elements, initial values and results; the memory of running
    values follows. `shape` is the length of a line, its stride in elements, and the elements of a
    work item.
    """

    def __init__(
        self,
        step: ScanStep,
        top: Body,
        memory: Sequence[ir.Buffer],
        types: Sequence[ElementType],
        flag: ir.Buffer | None,
        shape: tuple[int, int, int],
        is_backwards: bool,
    ) -> None:
        count = len(step.new)
        self._step, self._flag = step, flag
        self._length, self._inner, self._columns = shape
        own = list(zip(memory, types, strict=False))
        self._elements, self._initial, self._results = own[:count], own[count:-count], own[-count:]
        self._running = list(zip(memory[3 * count :], step.types, strict=False))
        self._first, self._sign = (self._length - 1, -1) if is_backwards else (0, 1)
        self._names, self._top = Names(), top
        self._starts: dict[Node, ir.Expression] = {}

    def build(self, items: int) -> None:
        """Append the statements of a kernel with `items` work items."""
        init_values: dict[Node, ir.Expression] = {
            variable: self._top.let(variable.name, load_element(kind, memory, 0))
            for variable, (memory, kind) in zip(self._step.init_values, self._initial, strict=True)
        }
        initial = evaluate(self._top, self._names, self._step.initial, init_values)
        self._starts = dict(zip(self._step.starts, initial, strict=True))
        with Items(self._top, items) as body:
            if self._running:
                self._block(body)
            else:
                self._row(body)

    def _row(self, body: Items) -> None:
        """A work item is a row, its running values are variables."""
        row = body.let("row", ir.Index(self._first, ((body.axis, self._length),)))
        known = self._loaded(body, row)
        begun = evaluate(body, self._names, self._step.begin, {**known, **self._starts})
        cells = [body.declare(self._names("run"), each) for each in begun]
        self._store_outputs(body, row, cells)
        with self._others(body, SPAN) as loop:
            terms = (body.axis, self._length), (loop.axis, self._sign)
            at = loop.let("at", ir.Index(self._first, terms))
            for cell, advanced in zip(cells, self._advanced(loop, at, cells), strict=True):
                loop.set(cell, advanced)
            self._store_outputs(loop, at, cells)

    def _block(self, body: Items) -> None:
        """A work item is a block of neighbours, their running values are in memory."""
        inner, size = self._inner, self._columns
        blocks = -(-inner // size)
        item = ir.Index(0, ((body.axis, 1),))
        row = body.let("row", ir.Quotient(item, blocks))
        low = body.let("low", ir.Index(0, ((ir.Remainder(item, blocks), size),)))
        high = body.let("high", ir.integer_op("minimum", ir.plus(low, size), inner))
        with Loop(body, self._names("column"), high, low, iterations=size) as loop:
            own = loop.let(self._names("own"), ir.Index(0, ((row, inner), (loop.axis, 1))))
            line = ir.Index(self._first, ((row, self._length),))
            at = loop.let(self._names("at"), ir.Index(0, ((line, inner), (loop.axis, 1))))
            known = self._loaded(loop, at)
            begun = evaluate(loop, self._names, self._step.begin, {**known, **self._starts})
            self._store_running(loop, at, own, begun)
        with (
            self._others(body, SPAN // size) as lines,
            Loop(lines, self._names("column"), high, low, iterations=size) as loop,
        ):
            own = loop.let(self._names("own"), ir.Index(0, ((row, inner), (loop.axis, 1))))
            line = ir.Index(self._first, ((row, self._length), (lines.axis, self._sign)))
            at = loop.let(self._names("at"), ir.Index(0, ((line, inner), (loop.axis, 1))))
            running = [
                loop.let(self._names("run"), load_element(kind, memory, own))
                for memory, kind in self._running
            ]
            self._store_running(loop, at, own, self._advanced(loop, at, running))

    def _others(self, body: Body, span: int) -> AbstractContextManager[Loop]:
        """Open the loop over all elements of a line but the first."""
        length, flag = self._length, self._flag if span < self._length else None
        return watched_loop(body, "i", ir.Index(length), ir.Index(1), length - 1, flag, span)

    def _loaded(self, body: Body, at: ir.Expression) -> dict[Node, ir.Expression]:
        return {
            variable: body.let(self._names("new"), load_element(kind, memory, at))
            for variable, (memory, kind) in zip(self._step.new, self._elements, strict=True)
        }

    def _advanced(
        self, body: Body, at: ir.Expression, running: Sequence[ir.Expression]
    ) -> Sequence[ir.Expression]:
        """Load the elements at an index and return the running values after them."""
        known = self._loaded(body, at) | dict(zip(self._step.running, running, strict=True))
        found = evaluate(body, self._names, self._step.advance, {**known, **self._starts})
        # One result may be the old value of another.
        return [body.let(self._names("next"), each) for each in found]

    def _store_running(
        self, body: Body, at: ir.Expression, own: ir.Expression, running: Sequence[ir.Expression]
    ) -> None:
        """Store results of running values, and these."""
        self._store_outputs(body, at, running)
        for (memory, kind), value in zip(self._running, running, strict=True):
            store_element(body, kind, memory, own, value)

    def _store_outputs(
        self, body: Body, at: ir.Expression, running: Sequence[ir.Expression]
    ) -> None:
        """Store results of running values."""
        known: dict[Node, ir.Expression] = dict(zip(self._step.running, running, strict=True))
        found = evaluate(body, self._names, self._step.outputs, {**known, **self._starts})
        for (memory, kind), value in zip(self._results, found, strict=True):
            store_element(body, kind, memory, at, value)

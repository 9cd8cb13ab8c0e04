"""Kernels that copy a strided array, or the windows of one (im2col), into a dense matrix.

The matrix has outer axes by inner axes. An axis moves through the source by a fixed stride, or
along a spatial dimension, on which other axes move, too. Elements beyond the ends of a spatial
dimension, and in the gaps of a dilated one, are zero.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from xla_contract.types.element_type import ElementType
from xla_server.buffers.code import Value as Array
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop, Repeat
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.lower.loop_nests.epilogue import Ends
from xla_server.codegen.lower.lowering import Lowering
from xla_server.codegen.trace.elementwise import zero


@dataclasses.dataclass(frozen=True, slots=True)
class SpatialDimension:
    """A spatial dimension: elements `gap` apart, and the position of the axes' index 0."""

    name: str
    size: int
    stride: int
    start: int
    gap: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class MatrixAxis:
    """One axis of the matrix. `step` is in positions of `line`, or in source elements."""

    name: str
    size: int
    step: int
    line: SpatialDimension | None = None

    @property
    def stride(self) -> int:
        """Source elements from one index to the next."""
        return self.step if self.line is None else self.step * self.line.stride


@dataclasses.dataclass(frozen=True, slots=True)
class CopiedMatrix:
    """A matrix to copy. The caller gives the indices of the `fixed` axes."""

    outer: tuple[MatrixAxis, ...]
    inner: tuple[MatrixAxis, ...]
    fixed: tuple[MatrixAxis, ...] = ()

    @property
    def rows(self) -> int:
        """The product of the outer sizes."""
        return math.prod(axis.size for axis in self.outer)

    @property
    def columns(self) -> int:
        """The product of the inner sizes."""
        return math.prod(axis.size for axis in self.inner)

    @property
    def axes(self) -> tuple[MatrixAxis, ...]:
        """All axes."""
        return (*self.fixed, *self.outer, *self.inner)

    def is_inside(self, line: SpatialDimension) -> bool:
        """Return whether no element is beyond the ends of a spatial dimension or in a gap."""
        moves = [axis.step * (axis.size - 1) for axis in self.axes if axis.line == line]
        low = line.start + sum(min(move, 0) for move in moves)
        high = line.start + sum(max(move, 0) for move in moves)
        no_gap = line.gap == 1 or low == high == 0
        return low >= 0 and high < line.size and no_gap

    def leading(self) -> int | None:
        """The leading dimension, in elements, if the source is such a matrix already; else None."""
        if not all(self.is_inside(axis.line) for axis in self.axes if axis.line is not None):
            return None
        inner = _chain(self.inner)
        outer = _chain(self.outer)
        if inner is None or outer is None or inner not in (0, 1):
            return None
        return max(outer or self.columns, 1) if (outer or self.columns) >= self.columns else None


def _chain(axes: Sequence[MatrixAxis]) -> int | None:
    """The stride of axes that can be merged into one; 0 without axes, None if they cannot."""
    expected = 0
    first = 0
    for axis in reversed([axis for axis in axes if axis.size > 1]):
        if expected and axis.stride != expected:
            return None
        first = first or axis.stride
        expected = axis.stride * axis.size
    return first


Indices: TypeAlias = Mapping[MatrixAxis, ir.Expression]
"""The index of each axis of more than one element."""

NO_INDICES: Indices = {}


def indices(
    body: Body, number: ir.Expression, axes: Sequence[MatrixAxis]
) -> dict[MatrixAxis, ir.Expression]:
    """Return each axis's index from a row-major number over all axes."""
    found = {}
    moving = [axis for axis in axes if axis.size > 1]
    for axis in reversed(moving):
        if axis is moving[0]:
            found[axis] = number
        else:
            found[axis] = body.let(axis.name, number % axis.size)
            number = body.let(f"{axis.name}_rest", number // axis.size)
    return found


def add_matrix(lowering: Lowering, matrix: CopiedMatrix, source: Array, result: Array) -> None:
    """Add the kernel that copies a matrix from one value to the other."""
    kernel = matrix_kernel(matrix, result.shape.element_type)
    lowering.add(kernel_thunk(result.name, kernel, (source, result)))


def matrix_kernel(matrix: CopiedMatrix, element_type: ElementType) -> Kernel:
    """Return the kernel that copies a matrix from one buffer to the other, row by row."""
    source, result, top = ir.Buffer(0, ir.Usage.READ), ir.Buffer(1, ir.Usage.WRITE), Body()
    with Items(top, matrix.rows, None) as items:
        ahead = ir.START * (matrix.columns * element_type.byte_width)
        target = ir.Region(items.let("target", ir.Address(result) + ahead), ir.Usage.WRITE)
        copy = MatrixCopy(matrix, element_type, source, target)
        copy.emit(items, (ir.START, ir.STOP), (0, matrix.columns))
    return Kernel((source, result), (), tuple(top.statements))


@dataclasses.dataclass(frozen=True, slots=True)
class MatrixCopy:
    """A copy of a part of a matrix to the beginning of `target`, densely."""

    matrix: CopiedMatrix
    element_type: ElementType
    source: ir.Memory
    target: ir.Memory

    def emit(
        self,
        body: Body,
        rows: Ends,
        columns: Ends,
        base: int | ir.Expression = 0,
        fixed: Indices = NO_INDICES,
    ) -> None:
        """Append the copy of these rows and columns.

        `base` are elements of the source before it, `fixed` the indices of the fixed axes.
        """
        first, last = map(ir.whole, columns)
        with Loop(body, "r", rows[1], rows[0], iterations=self.matrix.rows) as row:
            index = {**fixed, **indices(row, row.axis, self.matrix.outer)}
            column = row.declare("column", first)
            before = ir.integer_op("mul", row.axis - rows[0], last - first)
            run = _Run(self, index, ir.whole(base), before - first)
            runs = max(1, self.matrix.columns // run.length)
            with Repeat(row, ir.condition("lt", column, last), runs) as each:
                each.set(column, column + run.emit(each, column, last))


class _Run:
    """Elements of a row that the innermost loop copies, along one axis of the source."""

    def __init__(
        self,
        copy: MatrixCopy,
        index: dict[MatrixAxis, ir.Expression],
        base: ir.Expression,
        row: ir.Expression,
    ) -> None:
        """`row` are elements of the target before column 0."""
        matrix = copy.matrix
        inner = [axis for axis in matrix.inner if axis.size > 1] or list(matrix.inner[-1:])
        self._copy, self._index, self._base, self._row = copy, index, base, row
        self._kind = Type(copy.element_type.text)
        self._axis, self._unit = _run(inner)
        self._around = inner[: -2 if self._unit > 1 else -1]
        moving = [axis for axis in matrix.axes if axis.size > 1 and axis not in inner[-1:]]
        self._fixed = [axis for axis in moving if self._unit == 1 or axis != inner[-2]]
        self.length = self._axis.size * self._unit

    def emit(self, body: Body, column: ir.Cell, last: ir.Expression) -> ir.Expression:
        """Append the copy of a run from a column on, and return the number of its elements."""
        matrix, axis, line = self._copy.matrix, self._axis, self._axis.line
        ahead = body.let("ahead", self._row + column)
        if self._around:
            first = body.let("first", column % self.length)
            outside = body.let("outside", column // self.length)
            self._index.update(indices(body, outside, self._around))
        else:
            first = body.let("first", column)
        rest = ir.integer_op("minimum", ir.whole(self.length) - first, last - column)
        count = body.let("count", rest)
        stop = body.let("end", first + count)
        to = body.let("to", ahead - first)
        offset, tests = self._offset(body)
        low, high, is_partial = first, stop, False
        if line is not None:
            is_partial = not matrix.is_inside(line)
            position = body.let(line.name, self._position(line))
            if line.gap > 1 or (axis.step < 0 and is_partial):
                self._emit_tested(body, (first, stop), to, offset, position, tests)
                return count
            if is_partial:
                low, high = _clipped(body, axis, self._unit, position, (first, stop))
            offset = offset + position * line.stride
        if tests:
            inside = body.let("inside", ir.all_of(tests))
            low, high = (
                body.let(name, ir.Apply("select", (inside, end, stop), Type.I64))
                for name, end in (("low", low), ("high", high))
            )
        if tests or is_partial:
            self._emit_zeros(body, "before", (first, low), to)
        offset = body.let("offset", offset)
        step = 1 if self._unit > 1 else axis.stride
        with Loop(body, "u", high, low, iterations=self.length) as each:
            value = ir.Load(self._copy.source, self._kind, offset + each.axis * step)
            each.store(self._copy.target, self._kind, to + each.axis, value)
        if tests or is_partial:
            self._emit_zeros(body, "behind", (high, stop), to)
        return count

    def _offset(self, body: Body) -> tuple[ir.Expression, list[ir.Expression]]:
        """Return the offset of the source element that a run begins at, and its bounds tests.

        The run's own spatial dimension is left out.
        """
        matrix = self._copy.matrix
        free = [(self._index[axis], axis.step) for axis in self._fixed if axis.line is None]
        offset, tests = self._base + _sum(free, 0), list[ir.Expression]()
        for line in dict.fromkeys(axis.line for axis in matrix.axes if axis.line is not None):
            if line == self._axis.line:
                continue
            position: ir.Expression = body.let(line.name, self._position(line))
            if not matrix.is_inside(line):
                tests.append(ir.condition("ge", position, 0))
                if line.gap > 1:
                    there = body.let(f"{line.name}_in", ir.integer_op("maximum", position, 0))
                    tests.append(ir.condition("eq", there % line.gap, 0))
                    position = body.let(f"{line.name}_element", there // line.gap)
                tests.append(ir.condition("lt", position, line.size))
            offset = offset + position * line.stride
        return offset, tests

    def _position(self, line: SpatialDimension) -> ir.Expression:
        terms = [(self._index[axis], axis.step) for axis in self._fixed if axis.line == line]
        return _sum(terms, line.start)

    def _emit_zeros(
        self, body: Body, name: str, ends: tuple[ir.Value, ir.Value], to: ir.Value
    ) -> None:
        kind = self._copy.element_type
        with Loop(body, name, ends[1], ends[0], iterations=1) as each:
            each.store(self._copy.target, self._kind, to + each.axis, zero(kind).constant)

    def _emit_tested(
        self,
        body: Body,
        ends: tuple[ir.Value, ir.Value],
        to: ir.Value,
        offset: ir.Expression,
        position: ir.Expression,
        tests: Sequence[ir.Expression],
    ) -> None:
        """Append a run over a dimension with gaps, or reversed: each element is tested."""
        line, kind = self._axis.line, self._copy.element_type
        assert line is not None
        offset = body.let("offset", offset)
        with Loop(body, "u", ends[1], ends[0], iterations=self.length) as each:
            here = each.let("p", position + each.axis * self._axis.step)
            there = each.let("there", ir.integer_op("maximum", here, 0))
            element = each.let("e", there // line.gap)
            value = each.declare("v", zero(kind).constant)
            own = [
                ir.condition("ge", here, 0),
                ir.condition("eq", there % line.gap, 0),
                ir.condition("lt", element, line.size),
            ]
            with Branch(each, ir.all_of([*tests, *own])) as inside:
                load = ir.Load(self._copy.source, self._kind, offset + element * line.stride)
                inside.set(value, load)
            each.store(self._copy.target, self._kind, to + each.axis, value)


def _sum(terms: Sequence[tuple[ir.Expression, int]], constant: int) -> ir.Expression:
    products = [ir.times(index, factor) for index, factor in terms]
    return functools.reduce(ir.plus, [*products, ir.whole(constant)])


def _run(inner: Sequence[MatrixAxis]) -> tuple[MatrixAxis, int]:
    """Return the axis of the innermost loop, and the elements of each of its steps."""
    last = inner[-1]
    if len(inner) > 1 and last.line is None and last.step == 1:
        before = inner[-2]
        line = before.line
        if line is not None and line.gap == 1 and before.step == 1 and line.stride == last.size:
            return before, last.size
    return last, 1


def _clipped(
    body: Body,
    axis: MatrixAxis,
    unit: int,
    position: ir.Expression,
    ends: tuple[ir.Value, ir.Value],
) -> tuple[ir.Value, ir.Value]:
    """Return the range of a run that is inside its spatial dimension."""
    assert axis.line is not None
    step = axis.step
    below: ir.Expression = ir.integer_op("maximum", ir.whole(0) - position, 0)
    above: ir.Expression = ir.integer_op(
        "maximum", ir.whole(axis.line.size - 1 + step) - position, 0
    )
    if step > 1:
        below, above = ir.plus(below, step - 1) // step, above // step
    first, stop = ends
    low = ir.integer_op("maximum", ir.times(below, unit), first)
    low_end = body.let("begin", ir.integer_op("minimum", low, stop))
    high = ir.integer_op("minimum", ir.times(above, unit), stop)
    return low_end, body.let("finish", ir.integer_op("maximum", high, low_end))

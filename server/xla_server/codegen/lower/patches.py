"""Text of kernels that lay out a strided array, or patches of one, as a dense matrix.

The matrix has outer axes by inner axes. An axis moves through the source by a fixed stride, or
along a line of it (a spatial dimension) on which other axes move too and which may be left at
both ends: what lies there, or in the gaps of a dilated line, is zero.
"""

import dataclasses
import math
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A spatial dimension: elements `gap` apart, and where the axes' zero lies on it."""

    name: str
    size: int
    stride: int
    start: int
    gap: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """One axis of the matrix. On a line, `step` counts places of it; else source elements."""

    name: str
    size: int
    step: int
    line: Line | None = None

    @property
    def stride(self) -> int:
        """Source elements from one index to the next."""
        return self.step if self.line is None else self.step * self.line.stride


@dataclasses.dataclass(frozen=True, slots=True)
class Matrix:
    """What is laid out. `fixed` axes have their index from outside."""

    outer: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    fixed: tuple[Axis, ...] = ()

    @property
    def rows(self) -> int:
        """The product of the outer sizes."""
        return math.prod(axis.size for axis in self.outer)

    @property
    def columns(self) -> int:
        """The product of the inner sizes."""
        return math.prod(axis.size for axis in self.inner)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """All of them."""
        return (*self.fixed, *self.outer, *self.inner)

    def is_inside(self, line: Line) -> bool:
        """Whether no element is beyond the ends of a line or in a gap."""
        moves = [axis.step * (axis.size - 1) for axis in self.axes if axis.line == line]
        low = line.start + sum(min(move, 0) for move in moves)
        high = line.start + sum(max(move, 0) for move in moves)
        no_gap = line.gap == 1 or low == high == 0
        return low >= 0 and high < line.size and no_gap

    def leading(self) -> int | None:
        """Elements from row to row where the source is such a matrix already, else None."""
        if not all(self.is_inside(axis.line) for axis in self.axes if axis.line is not None):
            return None
        inner = _chain(self.inner)
        outer = _chain(self.outer)
        if inner is None or outer is None or inner not in (0, 1):
            return None
        return max(outer or self.columns, 1) if (outer or self.columns) >= self.columns else None


def _chain(axes: Sequence[Axis]) -> int | None:
    """The stride of axes that move as one does; 0 for none, None where they do not."""
    expected = 0
    first = 0
    for axis in reversed([axis for axis in axes if axis.size > 1]):
        if expected and axis.stride != expected:
            return None
        first = first or axis.stride
        expected = axis.stride * axis.size
    return first


def index_lines(number: str, axes: Sequence[Axis]) -> list[str]:
    """Statements that name each axis's index in a row-major number of them all."""
    lines = []
    moving = [axis for axis in axes if axis.size > 1]
    for axis in reversed(moving):
        if axis is moving[0]:
            lines.append(f"{axis.name} = {number}")
        else:
            lines.append(f"{axis.name} = whole_mod({number}, {axis.size})")
            lines.append(f"{axis.name}_rest = whole_div({number}, {axis.size})")
            number = f"{axis.name}_rest"
    return lines


def offset_text(axes: Sequence[Axis]) -> str:
    """The source element that the axes off all lines point at."""
    return _sum([(axis.name, axis.step) for axis in axes if axis.line is None and axis.size > 1], 0)


def _sum(terms: Sequence[tuple[str, int]], constant: int) -> str:
    parts = [name if factor == 1 else f"{name} * {factor}" for name, factor in terms]
    return " + ".join([*parts, str(constant)] if constant or not parts else parts)


def gather_lines(matrix: Matrix, kind: str, base: str) -> list[str]:
    """Statements that write rows r0 .. r1 and columns c0 .. c1 of a matrix, densely.

    They know `source` and `target`, addresses; `nothing`, a zero; and the elements of the source
    that `base` adds.
    """
    inner = [axis for axis in matrix.inner if axis.size > 1] or list(matrix.inner[-1:])
    run, unit = _run(inner, matrix)
    fixed = [axis for axis in matrix.axes if axis.size > 1 and axis not in inner[-1:]]
    if unit > 1:
        fixed.remove(inner[-2])
    before = inner[: -2 if unit > 1 else -1]
    length = run.size * unit
    body = ["at = (r - r0) * (c1 - c0) + c - c0"]
    if before:
        body += [f"first = whole_mod(c, {length})", f"outside = whole_div(c, {length})"]
        body += index_lines("outside", before)
    else:
        body.append("first = c")
    body += [f"count = minimum({length} - first, c1 - c)", "stop_at = first + count"]
    body.append(f"place = {base} + {offset_text(fixed)}")
    checks = []
    lines = list(dict.fromkeys(axis.line for axis in matrix.axes if axis.line is not None))
    for line in lines:
        if line == run.line:
            continue
        body.append(f"{line.name} = {_position(line, fixed)}")
        inside = _checked(matrix, line, body)
        checks += inside
        body.append(f"place = place + {line.name} * {line.stride}")
    body.append("low = first")
    body.append("high = stop_at")
    if run.line is not None:
        body.append(f"{run.line.name} = {_position(run.line, fixed)}")
        if run.line.gap > 1 or (run.step < 0 and not matrix.is_inside(run.line)):
            return _looped(matrix, [*body, *_careful(run, kind, checks)])
        if not matrix.is_inside(run.line):
            body += _clipped(run.line, run.step, unit)
        body.append(f"place = place + {run.line.name} * {run.line.stride}")
    if checks:
        body += [f"if not ({' and '.join(checks)}):", "    low = stop_at", "    high = stop_at"]
    step = 1 if unit > 1 else run.stride
    if checks or (run.line is not None and not matrix.is_inside(run.line)):
        body += _zeros("first", "low", kind)
    moved = "place + u" if step == 1 else f"place + u * {step}"
    body += [
        "for u in range(low, high):",
        f"    store_{kind}(target, at + u - first, load_{kind}(source, {moved}))",
    ]
    if checks or (run.line is not None and not matrix.is_inside(run.line)):
        body += _zeros("high", "stop_at", kind)
    return _looped(matrix, body)


def _looped(matrix: Matrix, body: Sequence[str]) -> list[str]:
    return [
        "for r in range(r0, r1):",
        *(f"    {line}" for line in index_lines("r", matrix.outer)),
        "    c = c0",
        "    while c < c1:",
        *(f"        {line}" for line in body),
        "        c = c + count",
    ]


def _run(inner: Sequence[Axis], matrix: Matrix) -> tuple[Axis, int]:
    """The axis that the innermost loop moves along, and elements for each of its steps."""
    last = inner[-1]
    if len(inner) > 1 and last.line is None and last.step == 1:
        before = inner[-2]
        line = before.line
        if line is not None and line.gap == 1 and before.step == 1 and line.stride == last.size:
            return before, last.size
    return last, 1


def _position(line: Line, axes: Sequence[Axis]) -> str:
    return _sum([(axis.name, axis.step) for axis in axes if axis.line == line], line.start)


def _checked(matrix: Matrix, line: Line, body: list[str]) -> list[str]:
    """Conditions under which a position is one of an element; it becomes the element's number."""
    if matrix.is_inside(line):
        return []
    name = line.name
    checks = [f"{name} >= 0"]
    if line.gap > 1:
        body.append(f"{name}_in = maximum({name}, 0)")
        body.append(f"{name}_off = whole_mod({name}_in, {line.gap})")
        # Kept for the test of the sign, which the quotient would lose.
        body.append(f"{name}_before = {name}")
        body.append(f"{name} = whole_div({name}_in, {line.gap})")
        checks = [f"{name}_before >= 0", f"{name}_off == 0"]
    return [*checks, f"{name} < {line.size}"]


def _clipped(line: Line, step: int, unit: int) -> list[str]:
    """low and high: the part of the run that is on the line."""
    below, above = (
        f"maximum(0 - {line.name}, 0)",
        f"maximum({line.size - 1 + step} - {line.name}, 0)",
    )
    if step > 1:
        below, above = f"whole_div({below} + {step - 1}, {step})", f"whole_div({above}, {step})"
    if unit > 1:
        below, above = f"{below} * {unit}", f"{above} * {unit}"
    return [
        f"low = minimum(maximum({below}, first), stop_at)",
        f"high = maximum(minimum({above}, stop_at), low)",
    ]


def _zeros(start: str, stop: str, kind: str) -> list[str]:
    return [
        f"for u in range({start}, {stop}):",
        f"    store_{kind}(target, at + u - first, nothing)",
    ]


def _careful(run: Axis, kind: str, checks: Sequence[str]) -> list[str]:
    """A run over a line with gaps, or against its direction: each element is tested."""
    assert run.line is not None
    line = run.line
    tests = " and ".join([*checks, "p >= 0", "off == 0", f"e < {line.size}"])
    return [
        "for u in range(low, high):",
        f"    p = {line.name} + u * {run.step}",
        f"    off = whole_mod(maximum(p, 0), {line.gap})",
        f"    e = whole_div(maximum(p, 0), {line.gap})",
        "    v = nothing",
        f"    if {tests}:",
        f"        v = load_{kind}(source, place + e * {line.stride})",
        f"    store_{kind}(target, at + u - first, v)",
    ]

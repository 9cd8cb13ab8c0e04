"""Lines that are scanned on a GPU: their parts, and sources and destinations of running values."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from xla_server.buffers.code import Value as Array
from xla_server.codegen.gpu.lower.thunks.thread_thunks import ThreadKernel
from xla_server.codegen.kernel_ir.builder import Body
from xla_server.codegen.kernel_ir.expressions import Expression, Index
from xla_server.codegen.lower.reduction.scan import ScanStep
from xla_server.codegen.schedules.builders.scalar_builder import (
    evaluate,
    load_element,
    store_element,
)
from xla_server.codegen.trace.graph import Node

WARP_LINE = 1024
"""Elements of a line that one warp scans; longer ones have parts."""

WARP_PART = 256
"""Elements of a part that one warp scans: eight times its lanes."""

THREAD_PART = 64
"""Elements of a part that one thread scans."""

SHORT_LINE = 8
"""Elements of a line along the last dimension up to which a thread scans it, not a warp."""

MANY_LINES = 1 << 15
"""Lines whose threads fill a GPU without parts."""

State: TypeAlias = Sequence[Expression]
"""Running values."""

Line: TypeAlias = tuple[Expression, Expression]
"""A line, by its outer and inner numbers."""


@dataclasses.dataclass(frozen=True, slots=True)
class ScanLines:
    """Lines along the second of three dimensions."""

    outer: int
    length: int
    inner: int

    @property
    def count(self) -> int:
        """The number of lines."""
        return self.outer * self.inner

    def warps(self, step: ScanStep) -> bool:
        """Return whether warps scan the lines, and not threads."""
        return bool(step.join) and self.inner == 1 and self.length > SHORT_LINE

    def part(self, step: ScanStep) -> int:
        """Return the elements of a part: those of the line if it has one."""
        if self.warps(step):
            return self.length if self.length <= WARP_LINE else WARP_PART
        is_whole = not step.join or self.length <= THREAD_PART or self.count >= MANY_LINES
        return self.length if is_whole else THREAD_PART

    def element(self, line: Line, number: Expression) -> Index:
        """Return the index of an element of a line, by its outer and inner numbers."""
        outer, inner = line
        terms = (outer, self.length * self.inner), (number, self.inner), (inner, 1)
        return Index(0, terms if self.inner > 1 else terms[:2])


class ScanLevel(Protocol):
    """The running values of lines: their source elements and their destination."""

    @property
    def step(self) -> ScanStep:
        """The step."""

    def bind(self, kernel: ThreadKernel, lines: ScanLines) -> "Bound":
        """Return the level inside of a kernel."""


class Bound(Protocol):
    """A level inside of a kernel. Numbers of elements along a line, `at`, are in order."""

    def begin(self, body: Body, line: Line, at: Expression) -> State:
        """Return the running values of an element alone."""

    def advance(self, body: Body, line: Line, at: Expression, before: State) -> State:
        """Return the running values after an element."""

    def store(self, body: Body, line: Line, at: Expression, state: State) -> None:
        """Store the results of running values."""


@dataclasses.dataclass(frozen=True, slots=True)
class Elements:
    """Level of the operands' elements, whose running values become results."""

    step: ScanStep
    operands: Sequence[Array]
    results: Sequence[Array]
    is_backwards: bool

    def bind(self, kernel: ThreadKernel, lines: ScanLines) -> "_BoundElements":
        """Return the level inside of a kernel."""
        initial = self.operands[len(self.results) :]
        init_values: dict[Node, Expression] = {
            variable: kernel.top.let(
                kernel.names("init"),
                load_element(value.shape.element_type, kernel.reads(value), 0),
            )
            for variable, value in zip(self.step.init_values, initial, strict=True)
        }
        found = evaluate(kernel.top, kernel.names, self.step.initial, init_values)
        starts: dict[Node, Expression] = dict(zip(self.step.starts, found, strict=True))
        return _BoundElements(self, kernel, lines, starts)


@dataclasses.dataclass(frozen=True, slots=True)
class _BoundElements:
    level: Elements
    kernel: ThreadKernel
    lines: ScanLines
    starts: Mapping[Node, Expression]

    def _index(self, line: Line, at: Expression) -> Index:
        if self.level.is_backwards:
            at = Index(self.lines.length - 1, ((at, -1),))
        return self.lines.element(line, at)

    def _elements(self, body: Body, line: Line, at: Expression) -> dict[Node, Expression]:
        index = body.let(self.kernel.names("at"), self._index(line, at))
        operands = self.level.operands[: len(self.level.results)]
        return {
            variable: body.let(
                self.kernel.names("new"),
                load_element(value.shape.element_type, self.kernel.reads(value), index),
            )
            for variable, value in zip(self.level.step.new, operands, strict=True)
        }

    def _evaluated(
        self, body: Body, nodes: Sequence[Node], known: Mapping[Node, Expression]
    ) -> State:
        found = evaluate(body, self.kernel.names, nodes, {**known, **self.starts})
        return [body.let(self.kernel.names("run"), each) for each in found]

    def begin(self, body: Body, line: Line, at: Expression) -> State:
        """Return the running values of an element alone."""
        return self._evaluated(body, self.level.step.begin, self._elements(body, line, at))

    def advance(self, body: Body, line: Line, at: Expression, before: State) -> State:
        """Return the running values after an element."""
        known = self._elements(body, line, at)
        known.update(zip(self.level.step.running, before, strict=True))
        return self._evaluated(body, self.level.step.advance, known)

    def store(self, body: Body, line: Line, at: Expression, state: State) -> None:
        """Store the results of running values."""
        index = self._index(line, at)
        known: dict[Node, Expression] = dict(zip(self.level.step.running, state, strict=True))
        found = self._evaluated(body, self.level.step.outputs, known)
        for value, each in zip(self.level.results, found, strict=True):
            store_element(body, value.shape.element_type, self.kernel.writes(value), index, each)


@dataclasses.dataclass(frozen=True, slots=True)
class Totals:
    """Level of the parts' totals, whose running values are the start values of later parts."""

    step: ScanStep
    totals: Sequence[Array]
    carries: Sequence[Array]

    def bind(self, kernel: ThreadKernel, lines: ScanLines) -> "_BoundTotals":
        """Return the level inside of a kernel."""
        return _BoundTotals(self, kernel, lines)


@dataclasses.dataclass(frozen=True, slots=True)
class _BoundTotals:
    level: Totals
    kernel: ThreadKernel
    lines: ScanLines

    def begin(self, body: Body, line: Line, at: Expression) -> State:
        """Return the total of a part."""
        return load_state(body, self.kernel, self.level.totals, self.lines.element(line, at))

    def advance(self, body: Body, line: Line, at: Expression, before: State) -> State:
        """Return the total of all parts up to one."""
        return join_states(body, self.kernel, self.level.step, before, self.begin(body, line, at))

    def store(self, body: Body, line: Line, at: Expression, state: State) -> None:
        """Store the total of all parts up to one."""
        store_state(body, self.kernel, self.level.carries, self.lines.element(line, at), state)


def load_state(
    body: Body, kernel: ThreadKernel, values: Sequence[Array], index: Expression
) -> State:
    """Return the running values at an index."""
    at = body.let(kernel.names("at"), index)
    return [
        body.let(
            kernel.names("run"), load_element(value.shape.element_type, kernel.reads(value), at)
        )
        for value in values
    ]


def store_state(
    body: Body, kernel: ThreadKernel, values: Sequence[Array], index: Expression, state: State
) -> None:
    """Store running values at an index."""
    for value, each in zip(values, state, strict=True):
        store_element(body, value.shape.element_type, kernel.writes(value), index, each)


def join_states(
    body: Body, kernel: ThreadKernel, step: ScanStep, left: State, right: State
) -> State:
    """Return the running values of two parts, the right one after the left."""
    known: dict[Node, Expression] = dict(zip(step.running, left, strict=True))
    known.update(zip(step.behind, right, strict=True))
    found = evaluate(body, kernel.names, step.join, known)
    return [body.let(kernel.names("run"), each) for each in found]

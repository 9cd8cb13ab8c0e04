"""Random programs: what they compute, and how far from exact each of their results may be.

Most instructions have one right answer, bit by bit. Sums of floats and elementary functions do
not, so each value carries a bound on what two correct platforms may differ by, and what would
turn a small difference into a large one (comparisons, integers, divisions) takes exact values only.
"""

import dataclasses
import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws import drawing
from tests.corpus.hlo_text import print_hlo
from xla_client import ops
from xla_client.programs.builder import Builder, Op
from xla_contract.stubs import hlo_pb2
from xla_contract.types.dimension_numbers import PaddingConfig, PaddingDimension
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.shape import Shape

INTEGERS = (E.S32, E.S8, E.U8, E.S16, E.U32, E.S64, E.U64, E.S4)
FLOATS = (E.F32, E.F64, E.BF16, E.F16)
KINDS = (E.F32, E.S32, E.PRED, E.C64, *INTEGERS, *FLOATS)
SIZES = (0, 1, 1, 2, 3, 4, 5, 8)
SMALLEST = 2.0**-20
"""Least magnitude of a program's arguments, except for 0."""
LARGEST = 1 << 12
"""Elements of a value, so that thousands of programs take minutes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """An array. Where `error` is not 0 its numbers are within it, and at most `size` large."""

    op: Op
    error: float = 0.0
    size: float = math.inf

    @property
    def kind(self) -> E:
        return self.op.shape.element_type

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.op.shape.dimensions


Step: TypeAlias = Callable[["Graph"], "Node | None"]
"""Adds instructions to a graph; None where the values it happened to choose do not suit it."""


class Graph:
    """A computation while it is drawn. Only the entry has arguments."""

    def __init__(self, chance: random.Random, names: "itertools.count[int]", depth: int) -> None:
        self.chance = chance
        self.names = names
        self.depth = depth
        self.builder = Builder(f"part{next(names)}")
        self.nodes: list[Node] = []
        self.arguments: list[Any] = []
        self.lengths = SIZES

    @property
    def is_entry(self) -> bool:
        return self.depth == 0

    def grow(self, steps: Sequence[Step], count: int) -> None:
        """Add the values of so many steps."""
        for _ in range(count):
            node = self.chance.choice(steps)(self)
            if node is not None and math.prod(node.sizes) <= LARGEST:
                self.nodes.append(node)

    def any(self, kinds: Sequence[E] = KINDS, *, exact: bool = True) -> Node:
        """A value of one of these types, one of the latest rather than of the first."""
        found = [n for n in self.nodes if n.kind in kinds and not (exact and n.error)]
        if not found or self.chance.random() < 0.1:
            rank = self.chance.choice((0, 1, 2, 2, 3))
            sizes = tuple(self.chance.choice(self.lengths) for _ in range(rank))
            if rank == 1 and self.chance.random() < 0.3:
                sizes = (self.chance.choice((17, 64, 100, 1025)),)
            return self.fresh(self.chance.choice(kinds), sizes)
        return found[-1] if self.chance.random() < 0.5 else self.chance.choice(found)

    def fresh(self, kind: E, sizes: Sequence[int]) -> Node:
        """A value that nothing was computed for: an argument, a constant, or an iota."""
        sizes = tuple(sizes)
        choice = self.chance.random()
        if choice < 0.1 and sizes and kind is not E.PRED and max(sizes) < 8:
            shape = Shape.array(kind, sizes)
            return self.kept(self.builder.iota(shape, self.chance.randrange(len(sizes))))
        seed = self.chance.randrange(1 << 16)
        array = ranged(drawing.array(kind, sizes, seed, special=self.chance.random() < 0.5))
        if choice < 0.3 or not self.is_entry:
            return self.kept(self.builder.constant(array))
        shape = Shape.array(kind, sizes)
        op = self.builder.parameter(len(self.arguments), shape)
        self.arguments.append(array)
        return self.kept(op)

    def kept(self, op: Op) -> Node:
        node = Node(op)
        self.nodes.append(node)
        return node

    def scalar(self, kind: E, value: Any) -> Op:
        """A constant of one element."""
        return self.builder.constant(np.asarray(value).astype(kind.dtype))

    def like(self, node: Node, *, exact: bool = True) -> Node:
        """A value of the same type and dimensions."""
        return self.shaped(node.kind, node.sizes, exact=exact)

    def shaped(self, kind: E, sizes: Sequence[int], *, exact: bool = True) -> Node:
        """A value of this type and these dimensions: one there is, a new one, one made to fit."""
        sizes = tuple(sizes)
        found = [
            n for n in self.nodes if n.kind is kind and n.sizes == sizes and not (exact and n.error)
        ]
        choice = self.chance.random()
        if found and choice < 0.6:
            return self.chance.choice(found)
        if choice < 0.8:
            return self.fresh(kind, sizes)
        return self.fitted(self.any(), kind, sizes)

    def fitted(self, node: Node, kind: E, sizes: Sequence[int]) -> Node:
        """Return an exact value converted, flattened, sliced or padded, and reduced to this
        shape.
        """
        op = node.op
        if node.kind is not kind:
            op = converted(op, kind)
        count, wanted = math.prod(node.sizes), math.prod(sizes)
        if tuple(node.sizes) != tuple(sizes):
            op = ops.reshape(op, (count,))
            if count != wanted:
                amount = PaddingConfig((PaddingDimension(0, wanted - count),))
                op = ops.pad(op, self.scalar(kind, 1), amount)
            op = ops.reshape(op, tuple(sizes))
        return Node(op)

    def nested(self) -> "Graph":
        """The graph of a computation that an instruction here is to call."""
        return Graph(self.chance, self.names, self.depth + 1)


def ranged(array: Any) -> Any:
    """Replace floats near the ends of their range.

    Platforms differ in whether subnormal numbers are zeros.
    """
    if array.dtype.kind == "c":
        parts = np.stack([ranged(array.real), ranged(array.imag)], axis=-1)
        return parts.view(array.dtype).reshape(array.shape)
    if not E.from_dtype(array.dtype).is_floating:
        return array
    size = np.abs(array.astype(np.float64))
    extreme = ((size < SMALLEST) | (size > 1 / SMALLEST)) & np.isfinite(size)
    return np.where(extreme, np.zeros((), array.dtype), array)


def converted(op: Op, kind: E) -> Op:
    """The value as another type; of a complex number the real part."""
    if op.shape.element_type.is_complex and not kind.is_complex:
        op = ops.real(op)
    return ops.convert_element_type(op, kind)


@dataclasses.dataclass(frozen=True)
class Program:
    """A module with its arguments; `errors` bound each element of its results."""

    proto: hlo_pb2.HloModuleProto
    arguments: list[Any]
    errors: list[float]

    def __repr__(self) -> str:
        """Describe a failure: HLO text, arguments and bounds."""
        return f"{print_hlo(self.proto)}\narguments {self.arguments}\nerrors {self.errors}"


@st.composite
def programs(draw: st.DrawFn, steps: Sequence[Step], largest: int = 12) -> Program:
    """Programs of up to so many steps; a failing one shrinks to its first steps."""
    count = draw(st.integers(1, largest))
    # Choices drawn one by one would mostly be the least ones, and programs alike.
    return grown(random.Random(draw(st.integers(0, 2**64 - 1))), steps, count)


def grown(chance: random.Random, steps: Sequence[Step], count: int) -> Program:
    """Return a program of so many steps."""
    graph = Graph(chance, itertools.count(), 0)
    graph.grow(steps, count)
    if not graph.nodes:
        graph.any()
    count = min(len(graph.nodes), chance.randint(1, 4))
    results = [graph.nodes[-1], *chance.sample(graph.nodes, count - 1)]
    root = ops.tuple([node.op for node in results])
    return Program(
        graph.builder.build(root).proto, graph.arguments, [node.error for node in results]
    )


def assert_alike(ours: Any, theirs: Any, error: float) -> None:
    """The same bits, or where `error` is not 0 numbers no further apart, and the same NaNs."""
    if not error:
        assert_equal_bits(ours, theirs)
        return
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    numbers: Any = ml_dtypes
    tiny = 4 * float(numbers.finfo(ours.dtype).smallest_normal)
    wide = ours.astype(np.float64), theirs.astype(np.float64)
    np.testing.assert_allclose(*wide, rtol=0, atol=2 * error + tiny)

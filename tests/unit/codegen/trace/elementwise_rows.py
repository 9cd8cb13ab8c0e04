"""Programs of every elementwise operation, for compiled platforms beside the interpreter."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws import drawing, operands
from tests.conformance.sweep.draws.bounds import BOUNDS, FLUSHED, assert_within
from tests.conformance.sweep.draws.depth import FULL
from tests.elementwise_operations.operation import Ulps
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops.elementwise.compare import ComparisonDirection, ComparisonType
from xla_contract.ops.elementwise.elementwise import BINARY, UNARY
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode

EVERY = [kind for kind in E if kind.is_array]
REAL_FLOATS = [kind for kind in EVERY if kind.is_floating]
COUNT = 203  # no multiple of a vector's length
UNSIGNED = {8: E.U8, 16: E.U16, 32: E.U32, 64: E.U64, 4: E.U4}

SLICE = (
    E.PRED,
    E.S4,
    E.S32,
    E.S64,
    E.U8,
    E.U32,
    E.F16,
    E.BF16,
    E.F32,
    E.F64,
    E.F8E4M3FN,
    E.F8E5M2FNUZ,
    E.F4E2M1FN,
    E.C64,
)
"""One type of each way to store and compute; `make conformance` takes all."""

every_type = pytest.mark.parametrize("kind", EVERY if FULL else SLICE, ids=lambda kind: kind.text)

Row = Callable[..., Op]
"""Function from a program's parameters to one of its results."""

Both = Callable[..., list[tuple[Any, Any]]]
"""Function from that of a program and its arguments to (compiled, interpreted) of each result."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """Results of one program over the same arrays, by their names.

    Those with a bound may differ by so many ULP, others by no bit.
    """

    rows: Mapping[object, Row]
    arrays: Sequence[Any]
    bounds: Mapping[Any, Ulps] = dataclasses.field(default_factory=dict)

    @property
    def of_normal_numbers(self) -> "Rows":
        """The same without subnormal operands of types in which some platforms flush them."""
        arrays = [operands.normal(a) if _is_flushed(a) else a for a in self.arrays]
        return dataclasses.replace(self, arrays=arrays)

    def check(self, both: Both) -> None:
        """Compile, run and compare all of them."""

        def function(*parameters: Op) -> Op:
            results = [row(*parameters) for row in self.rows.values()]
            return ops.tuple(results, parameters[0].builder)

        for name, pair in zip(self.rows, both(function, *self.arrays), strict=True):
            try:
                if name in self.bounds:
                    bound = self.bounds[name].of(E.from_dtype(pair[1].dtype))
                    assert_within(*pair, bound)
                else:
                    assert_equal_bits(*pair)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None


def _is_flushed(array: Any) -> bool:
    kind = E.from_dtype(array.dtype)
    return kind in FLUSHED and not kind.is_complex


def drawn(kind: E, seed: int, count: int = COUNT) -> Any:
    """Return numbers of a type, some of them special."""
    array = drawing.array(kind, (count,), seed)
    if kind.is_complex:
        return operands.complexes(kind, (count,), seed)
    return array


def every_operation(kind: E) -> Rows:
    """Return every unary and binary operation of a type."""
    opcodes = [o for o in (*UNARY, *BINARY) if kind in (UNARY.get(o) or BINARY[o]).members]
    groups = [operands.operands(opcode, kind, (COUNT,), 7) for opcode in opcodes]
    starts = np.cumsum([0, *(len(group) for group in groups)])

    def row(opcode: Opcode, start: int) -> Row:
        return lambda *p: p[0].builder.instruction(opcode, p[start : start + opcode.arity])

    rows = {opcode: row(opcode, start) for opcode, start in zip(opcodes, starts, strict=False)}
    return Rows(rows, [array for group in groups for array in group], BOUNDS)


def compare_select_and_clamp(kind: E) -> Rows:
    """Return comparisons of a type, in its order and in the total one, and what chooses by them."""
    directions = list(ComparisonDirection)
    if kind.is_complex:
        directions = [ComparisonDirection.EQ, ComparisonDirection.NE]

    def compare(direction: ComparisonDirection, total: bool) -> Row:
        order = ComparisonType.TOTALORDER if total else None
        return lambda p, x, y, z: ops.compare(x, y, direction, comparison_type=order)

    rows: dict[object, Row] = {f"compare {each}": compare(each, False) for each in directions}
    if kind.is_floating:
        rows |= {f"total order {each}": compare(each, True) for each in directions}
    rows["select"] = lambda p, x, y, z: ops.select(p, x, y)
    rows["select by one"] = lambda p, x, y, z: ops.select(
        ops.reshape(ops.slice(p, [0], [1], [1]), []), x, y
    )
    if not kind.is_complex:
        rows["clamp"] = lambda p, x, y, z: ops.clamp(y, x, z)
    x, y, z = (drawn(kind, seed) for seed in (1, 2, 3))
    y[: COUNT // 4] = x[: COUNT // 4]
    if kind.is_floating:
        x, y, z = (operands.normal(array) for array in (x, y, z))
    return Rows(rows, [drawing.array(E.PRED, (COUNT,), 4), x, y, z])


def converted_to_every_type(kind: E) -> Rows:
    """Return the conversions of a type to all others."""
    rows = {to.text: lambda x, to=to: ops.convert_element_type(x, to) for to in EVERY}
    return Rows(rows, [drawn(kind, 5)])


def bitcast_to_every_type(kind: E) -> Rows:
    """Return the bits of a type as those of others, of which one width is a multiple of it."""
    targets = [to for to in EVERY if to.is_complex == kind.is_complex]
    targets = [
        to
        for to in targets
        if not (to.bit_width % kind.bit_width and kind.bit_width % to.bit_width)
    ]
    ratios = [to.bit_width // kind.bit_width for to in targets]
    arrays = [drawing.array(kind, (9, ratio) if ratio > 1 else (9,), 6) for ratio in ratios]

    def row(number: int, to: E) -> Row:
        return lambda *p: ops.bitcast_convert_type(p[number], to)

    return Rows({to.text: row(number, to) for number, to in enumerate(targets)}, arrays)


def reduced_precision(kind: E) -> Rows:
    """Return a float type rounded to some formats."""
    formats = [(5, 10), (8, 7), (4, 3), (2, 1), (1, 0), (8, 23), (11, 52), (11, 0), (3, 60)]
    rows = {each: lambda x, each=each: ops.reduce_precision(x, *each) for each in formats}
    array = drawing.array(kind, (COUNT,), 8)
    return Rows(rows, [operands.normal(array) if kind is E.F8E8M0FNU else array])


def stochastically_converted(kind: E) -> Rows:
    """Return a float type rounded to integers by random bits."""
    targets = [to for to in EVERY if to.is_signed_integer]
    rows = {to.text: lambda x, r, to=to: ops.stochastic_convert_type(x, r, to) for to in targets}
    random = drawing.array(UNSIGNED[kind.bit_width], (COUNT,), 9)
    return Rows(rows, [drawing.array(kind, (COUNT,), 8), random])

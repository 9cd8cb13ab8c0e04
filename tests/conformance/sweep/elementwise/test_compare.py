"""Comparisons in every order, selections and bounds, on drawn values of every element type."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.oracle import assert_equal_bits, evaluated
from tests.conformance.sweep.draws import drawing, operands, program
from tests.conformance.sweep.draws.bounds import assert_within
from tests.conformance.sweep.draws.depth import drawn
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops import rules
from xla_contract.ops.elementwise.compare import ComparisonDirection, ComparisonType
from xla_contract.types.element_type import ElementType as E

RUN_BY_XLA = [kind for kind in E if kind.is_array and kind not in operands.REFUSED]


def pairs(kind: E, shape: tuple[int, ...], seed: int) -> list[Any]:
    """Two arrays, a third of whose elements are the same."""
    lhs, rhs = (drawing.array(kind, shape, seed + number) for number in range(2))
    same = np.random.default_rng(seed).random(shape) < 0.3
    return [lhs, np.where(same, lhs, rhs)]


def directions(kind: E) -> list[ComparisonDirection]:
    """Every direction, for complex numbers those without order."""
    unordered = [ComparisonDirection.EQ, ComparisonDirection.NE]
    return unordered if kind.is_complex else list(ComparisonDirection)


@drawn(slice_of=4, full=120)
@given(
    kind=st.sampled_from(RUN_BY_XLA),
    shape=drawing.dimensions(max_rank=3, max_size=9),
    seed=drawing.seeds(),
    total=st.booleans(),
)
def test_all_directions_agree_in_every_order(
    kind: E, shape: tuple[int, ...], seed: int, total: bool
) -> None:
    order = ComparisonType.default(kind)
    if total and kind.is_floating:
        order = ComparisonType.TOTALORDER

    def function(lhs: Op, rhs: Op) -> Op:
        every = [ops.compare(lhs, rhs, each, comparison_type=order) for each in directions(kind)]
        return ops.tuple(every, lhs.builder)

    for ours, theirs in program.both(function, pairs(kind, shape, seed)):
        assert_equal_bits(ours, theirs)


@pytest.mark.parametrize("kind", operands.ONE_BIT, ids=lambda kind: kind.text)
def test_integers_of_one_bit_compare_as_numbers(kind: E) -> None:
    numbers = np.array([0, -1] if kind is E.S1 else [0, 1]).astype(kind.dtype)
    lhs, rhs = (side.ravel() for side in np.meshgrid(numbers, numbers))
    wide = [side.astype(np.int64) for side in (lhs, rhs)]
    for name in ("eq", "ne", "ge", "gt", "le", "lt"):
        compare = getattr(ops, name)
        (ours,) = evaluated(program.built(compare, [lhs, rhs]).proto, [lhs, rhs])
        (wanted,) = evaluated(program.built(compare, wide).proto, wide)
        np.testing.assert_array_equal(ours, wanted)


@pytest.mark.parametrize("kind", operands.SIX_BITS, ids=lambda kind: kind.text)
def test_floats_of_six_bits_compare_as_the_same_numbers_of_f32(kind: E) -> None:
    numbers = np.arange(64, dtype=np.uint8).view(kind.dtype)
    lhs, rhs = (side.ravel() for side in np.meshgrid(numbers, numbers))
    for order in (ComparisonType.FLOAT, ComparisonType.TOTALORDER):

        def function(x: Op, y: Op, order: ComparisonType = order) -> Op:
            every = [ops.compare(x, y, each, comparison_type=order) for each in directions(kind)]
            return ops.tuple(every, x.builder)

        ours = evaluated(program.built(function, [lhs, rhs]).proto, [lhs, rhs])
        wide = program.both(function, [side.astype(np.float32) for side in (lhs, rhs)])
        for result, (_, theirs) in zip(ours, wide, strict=True):
            np.testing.assert_array_equal(result, theirs)


@drawn(slice_of=4, full=100)
@given(
    kind=st.sampled_from(RUN_BY_XLA),
    shape=drawing.dimensions(max_rank=3, max_size=9),
    seed=drawing.seeds(),
    scalar=st.booleans(),
)
def test_select_moves_the_chosen_bits(
    kind: E, shape: tuple[int, ...], seed: int, scalar: bool
) -> None:
    predicate = drawing.array(E.PRED, () if scalar else shape, seed)
    arguments = [predicate, *pairs(kind, shape, seed)]
    ((ours, theirs),) = program.both(ops.select, arguments)
    assert_equal_bits(ours, theirs)


@drawn(slice_of=4, full=100)
@given(
    kind=st.sampled_from([kind for kind in RUN_BY_XLA if kind in rules.REAL.members]),
    shape=drawing.dimensions(max_rank=3, max_size=9),
    seed=drawing.seeds(),
    scalars=st.tuples(st.booleans(), st.booleans()),
)
def test_clamp_takes_bounds_of_both_ranks_crossing_or_not(
    kind: E, shape: tuple[int, ...], seed: int, scalars: tuple[bool, bool]
) -> None:
    low, high = (
        drawing.array(kind, () if scalar else shape, seed + number)
        for number, scalar in enumerate(scalars)
    )
    arguments = [low, drawing.array(kind, shape, seed + 2), high]
    if kind is E.F8E8M0FNU:
        arguments = [operands.normal(array) for array in arguments]
    ((ours, theirs),) = program.both(ops.clamp, arguments)
    assert_within(ours, theirs, 0)

"""Conversions between all pairs of element types, to their bits and to fewer bits."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.conformance.oracle import assert_equal_bits, evaluated
from tests.conformance.sweep.draws import drawing, operands, program
from tests.conformance.sweep.draws.depth import FULL, drawn
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.types.element_type import ElementType as E

RUN_BY_XLA = [kind for kind in E if kind.is_array and kind not in operands.REFUSED]
FLOATS = [kind for kind in RUN_BY_XLA if kind.is_floating]


def assert_pairs_equal(kinds: list[E], pairs: list[tuple[Any, Any]]) -> None:
    for kind, (ours, theirs) in zip(kinds, pairs, strict=True):
        try:
            assert_equal_bits(ours, theirs)
        except AssertionError as error:
            raise AssertionError(f"to {kind.text}: {error}") from None


@drawn(slice_of=5, full=400)
@given(
    source=st.sampled_from(RUN_BY_XLA),
    targets=st.lists(st.sampled_from(RUN_BY_XLA), min_size=1, max_size=4, unique=True),
    shape=drawing.dimensions(max_rank=3, max_size=12),
    seed=drawing.seeds(),
)
def test_convert_gives_xlas_bits(
    source: E, targets: list[E], shape: tuple[int, ...], seed: int
) -> None:
    """jaxlib 0.10 crashes compiling a conversion of complex numbers to pred."""
    assume(not (source.is_complex and E.PRED in targets))

    def function(x: Op) -> Op:
        return ops.tuple([ops.convert_element_type(x, kind) for kind in targets], x.builder)

    assert_pairs_equal(targets, program.both(function, [drawing.array(source, shape, seed)]))


def partners(kind: E) -> list[E]:
    """The types that the bits of `kind` can be read as, and XLA's CPU backend reads them as.

    Programs reach it as StableHLO, which counts one bit for pred where XLA counts eight. It aborts
    where the widths of two complex types differ.
    """
    if kind is E.PRED or kind.is_complex:
        return [kind]
    return [other for other in RUN_BY_XLA if not other.is_complex and other is not E.PRED]


@drawn(slice_of=5, full=60)
@given(
    source=st.sampled_from(RUN_BY_XLA),
    targets=st.randoms(use_true_random=False),
    shape=drawing.dimensions(max_rank=2, max_size=9),
    seed=drawing.seeds(),
)
def test_bitcast_convert_moves_every_bit(
    source: E, targets: Any, shape: tuple[int, ...], seed: int
) -> None:
    allowed = partners(source)
    every = allowed if FULL else targets.sample(allowed, min(3, len(allowed)))
    ratios = [max(1, kind.bit_width // source.bit_width) for kind in every]
    given_arrays = [
        drawing.array(source, (*shape, ratio) if ratio > 1 else shape, seed) for ratio in ratios
    ]

    def function(*parameters: Op) -> Op:
        rows = zip(parameters, every, strict=True)
        return ops.tuple([ops.bitcast_convert_type(*row) for row in rows], parameters[0].builder)

    assert_pairs_equal(every, program.both(function, given_arrays))


@pytest.mark.parametrize("kind", [E.C64, E.C128], ids=lambda kind: kind.text)
def test_bitcast_convert_between_complex_types_is_undone_by_its_reverse(kind: E) -> None:
    other = E.C128 if kind is E.C64 else E.C64
    array = operands.complexes(kind, (3, 2), 0)

    def function(x: Op) -> Op:
        return ops.bitcast_convert_type(ops.bitcast_convert_type(x, other), kind)

    (ours,) = evaluated(program.built(function, [array]).proto, [array])
    np.testing.assert_array_equal(ours.view(np.uint8), array.view(np.uint8))


@drawn(slice_of=5, full=120)
@given(
    kind=st.sampled_from(FLOATS),
    exponent=st.integers(1, 12),
    mantissa=st.integers(0, 54),
    shape=drawing.dimensions(max_rank=3, max_size=12),
    seed=drawing.seeds(),
)
def test_reduce_precision_rounds_as_xla(
    kind: E, exponent: int, mantissa: int, shape: tuple[int, ...], seed: int
) -> None:
    # XLA leaves floats of 8 bits as they are for these two numbers, and for no others.
    assume((exponent, mantissa) != (4, 11) or kind.bit_width > 8)
    array = drawing.array(kind, shape, seed)
    ((ours, theirs),) = program.both(lambda x: ops.reduce_precision(x, exponent, mantissa), [array])
    assert_equal_bits(ours, theirs)


@drawn(slice_of=40, full=400)
@given(
    kind=st.sampled_from([kind for kind in E if kind.is_array and kind.is_floating]),
    target=st.sampled_from([kind for kind in E if kind.is_array and kind.is_signed_integer]),
    seed=drawing.seeds(),
)
def test_stochastic_convert_rounds_away_for_exactly_the_drawn_fraction(
    kind: E, target: E, seed: int
) -> None:
    """StableHLO has no such operation, so jaxlib runs none: the definition in whole numbers."""
    unsigned = {4: E.U4, 8: E.U8, 16: E.U16, 32: E.U32, 64: E.U64}.get(kind.bit_width)
    if unsigned is None:
        return  # There are no integers of 6 bits to draw from.
    numbers = drawing.array(kind, (64,), seed)
    random = drawing.array(unsigned, (64,), seed + 1)

    def function(x: Op, r: Op) -> Op:
        return ops.stochastic_convert_type(x, r, target)

    (ours,) = evaluated(program.built(function, [numbers, random]).proto, [numbers, random])
    low, high = -(2 ** (target.bit_width - 1)), 2 ** (target.bit_width - 1) - 1
    for number, drawn_bits, found in zip(
        numbers.astype(np.float64).tolist(), random.astype(np.uint64).tolist(), ours, strict=True
    ):
        assert int(found) == _rounded(number, drawn_bits, kind.bit_width, low, high)


def _rounded(number: float, drawn_bits: int, bits: int, low: int, high: int) -> int:
    if np.isnan(number):
        return 0
    if np.isinf(number):
        return high if number > 0 else low
    towards_zero = int(number)
    numerator, denominator = abs(number).as_integer_ratio()
    fraction = (numerator % denominator) * 2**bits // denominator
    step = (1 if number > 0 else -1) if drawn_bits < fraction else 0
    return min(max(towards_zero + step, low), high)

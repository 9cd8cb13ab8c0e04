"""Generators of random bits from drawn states, to the bit, and what rng promises of its draws."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.oracle import assert_equal_bits, evaluated, run_on_xla
from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.depth import drawn
from tests.conformance.sweep.draws.moving import PACKED
from tests.conformance.sweep.draws.program import both, built
from xla_client import ops
from xla_contract.ops.random.rng_bit_generator import RandomAlgorithm
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.shape import Shape

Draw = st.DataObject


def words() -> st.SearchStrategy[int]:
    """64-bit words, many of them where a counter carries."""
    edges = [2**32, 2**63, 2**64]
    near = st.tuples(st.sampled_from(edges), st.integers(1, 60)).map(lambda pair: pair[0] - pair[1])
    return st.integers(0, 2**64 - 1) | near | st.integers(0, 3)


@drawn(8, 400)
@given(st.data())
def test_bits_and_the_state_that_follows(data: Draw) -> None:
    algorithm = data.draw(st.sampled_from(RandomAlgorithm))
    # The state of the default algorithm is what the platform makes of it: Philox's on the CPU.
    length = 2 if algorithm is RandomAlgorithm.THREE_FRY else data.draw(st.integers(2, 3))
    state = np.array([data.draw(words()) for _ in range(length)], np.uint64)
    element_type = data.draw(st.sampled_from([E.U8, E.U16, E.U32, E.U64]))
    shape = Shape.array(element_type, data.draw(drawing.dimensions(max_size=9)))
    for ours, theirs in both(lambda s: ops.rng_bit_generator(algorithm, s, shape), [state]):
        assert_equal_bits(ours, theirs)


@drawn(4, 150)
@given(st.data())
def test_one_generator_goes_on_where_another_stopped(data: Draw) -> None:
    algorithm = data.draw(st.sampled_from([RandomAlgorithm.THREE_FRY, RandomAlgorithm.PHILOX]))
    length = 2 if algorithm is RandomAlgorithm.THREE_FRY else 3
    state = np.array([data.draw(words()) for _ in range(length)], np.uint64)
    shapes = [
        Shape.array(data.draw(st.sampled_from([E.U8, E.U32, E.U64])), sizes)
        for sizes in data.draw(st.lists(drawing.dimensions(max_rank=2), min_size=1, max_size=3))
    ]

    def program(s: Any) -> Any:
        results = []
        for shape in shapes:
            pair = ops.rng_bit_generator(algorithm, s, shape)
            s = ops.get_tuple_element(pair, 0)
            results.append(ops.get_tuple_element(pair, 1))
        return ops.tuple([s, *results])

    for ours, theirs in both(program, [state]):
        assert_equal_bits(ours, theirs)


COUNT = 4000


@drawn(3, 60)
@given(st.data())
def test_uniform_integers_fill_their_range(data: Draw) -> None:
    element_type = data.draw(st.sampled_from([t for t in drawing.INTEGERS if t not in PACKED]))
    info = np.iinfo(element_type.dtype)  # type: ignore[arg-type]
    low = data.draw(st.integers(int(info.min), int(info.max) - 1))
    high = data.draw(st.integers(low + 1, min(int(info.max), low + 200)))
    for numbers in both_draws(ops.rng_uniform, element_type, low, high):
        assert numbers.min() >= low
        assert numbers.max() < high
        if high - low <= 20:
            assert len(np.unique(numbers)) == high - low


@drawn(3, 60)
@given(st.data())
def test_uniform_floats_stay_below_the_upper_bound(data: Draw) -> None:
    element_type = data.draw(st.sampled_from(drawing.FLOATS))
    low = data.draw(st.sampled_from([-3.0, -1.0, 0.0, 0.5, 100.0]))
    width = data.draw(st.sampled_from([0.5, 1.0, 2.0, 64.0]))
    ours, theirs = both_draws(ops.rng_uniform, element_type, low, low + width)
    # XLA rounds halves from f32, onto the upper bound too.
    assert ours.max() < low + width
    for numbers in (ours, theirs):
        wide = numbers.astype(np.float64)
        assert np.all((low <= wide) & (wide <= low + width))
        # The mean of so many is within six of its deviations, and rounding moves it a little.
        tolerance = 6 * width / np.sqrt(12 * COUNT) + coarseness(wide)
        assert wide.mean() == pytest.approx(low + width / 2, abs=tolerance)
        assert wide.std() == pytest.approx(width / np.sqrt(12), rel=0.1, abs=coarseness(wide))


@drawn(3, 60)
@given(st.data())
def test_normal_floats_have_mean_and_deviation(data: Draw) -> None:
    element_type = data.draw(st.sampled_from(drawing.FLOATS))
    mean = data.draw(st.sampled_from([-4.0, 0.0, 1.0, 32.0]))
    deviation = data.draw(st.sampled_from([0.25, 1.0, 3.0]))
    for numbers in both_draws(ops.rng_normal, element_type, mean, deviation):
        wide = numbers.astype(np.float64)
        assert np.all(np.isfinite(wide))
        tolerance = 6 * deviation / np.sqrt(COUNT) + coarseness(wide)
        assert wide.mean() == pytest.approx(mean, abs=tolerance)
        assert wide.std() == pytest.approx(deviation, rel=0.1, abs=coarseness(wide))
        beyond = np.abs(wide - mean) > 2 * deviation
        assert 0.02 < beyond.mean() < 0.08 or element_type is E.BF16


def coarseness(numbers: Any) -> float:
    """A step of bf16 at the largest of the numbers: what rounding may do to them."""
    return float(np.abs(numbers).max()) / 128


def both_draws(distribution: Any, element_type: E, first: float, second: float) -> list[Any]:
    """Return our numbers and XLA's, drawn from a distribution of two parameters."""
    arguments = [np.array(number, element_type.dtype) for number in (first, second)]
    shape = Shape.array(element_type, [COUNT // 4, 4])
    proto = built(lambda a, b: distribution(a, b, shape), arguments).proto
    results = evaluated(proto, arguments)
    # XLA's process aborts for integers of 8 and 16 bits.
    if element_type not in (E.S8, E.S16, E.U8, E.U16):
        results += run_on_xla(proto, arguments)
    for result in results:
        assert (result.dtype, result.shape) == (element_type.dtype, shape.dimensions)
    return results

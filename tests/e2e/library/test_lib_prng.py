"""Integers and events drawn by `xla_client.lib.prng` on a real server, against jax."""

import jax
import numpy as np
import pytest

from xla_client import Builder, ElementType, InvalidArgumentError, Shape
from xla_client.lib import constants, prng

SEED = 1234


@pytest.mark.parametrize(
    ("element_type", "low", "high"),
    [
        (ElementType.S32, -5, 12),
        (ElementType.S32, 0, 2**31 - 1),
        (ElementType.U32, 3, 2**31 + 5),
        (ElementType.S64, -(10**15), 10**15),
        (ElementType.U64, 1, 2),
    ],
)
def test_integers_are_those_of_jax(run, element_type, low, high):
    shape = Shape.array(element_type, [40, 25])
    found = run(lambda b: prng.uniform_integers(prng.key(b, SEED), shape, low, high))
    with jax.enable_x64(True):
        key = jax.random.PRNGKey(SEED)
        expected = jax.random.randint(key, (40, 25), low, high, element_type.dtype)
    np.testing.assert_array_equal(found, np.asarray(expected))


@pytest.mark.parametrize(
    ("element_type", "low", "high"), [(ElementType.S8, -128, 127), (ElementType.U16, 7, 1000)]
)
def test_narrow_integers_are_remainders_of_twice_their_bits(run, element_type, low, high):
    shape = Shape.array(element_type, [1000])
    found = run(lambda b: prng.uniform_integers(prng.key(b, SEED), shape, low, high))
    width = element_type.bit_width
    upper, lower = (
        np.asarray(jax.random.bits(key, (1000,), f"uint{width}")).astype(np.int64)
        for key in jax.random.split(jax.random.PRNGKey(SEED))
    )
    expected = ((upper << width) + lower) % (high - low) + low
    np.testing.assert_array_equal(found, expected)


def test_integers_take_the_whole_range_of_their_type(run):
    shape = Shape.array(ElementType.S8, [4000])
    found = run(lambda b: prng.uniform_integers(prng.key(b, SEED), shape, -128, 128))
    assert (found.min(), found.max()) == (-128, 127)
    assert abs(found.astype(int).mean()) < 4
    assert set(run(lambda b: prng.uniform_integers(prng.key(b, 0), shape, 9, 10))) == {9}


def test_events_are_those_of_jax(run):
    found = run(lambda b: prng.bernoulli(prng.key(b, SEED), 0.3, [50, 20]))
    expected = jax.random.bernoulli(jax.random.PRNGKey(SEED), np.float32(0.3), (50, 20))
    np.testing.assert_array_equal(found, np.asarray(expected))


@pytest.mark.parametrize(
    ("element_type", "low", "high"),
    [
        (ElementType.S8, 0, 129),
        (ElementType.U8, -1, 3),
        (ElementType.S32, 4, 4),
        (ElementType.S4, 0, 3),
        (ElementType.F32, 0, 3),
    ],
)
def test_ranges_the_type_does_not_hold_are_refused(element_type, low, high):
    shape = Shape.array(element_type, [3])
    with pytest.raises(
        InvalidArgumentError, match=rf"got \[{low}, {high}\) for {element_type.text}"
    ):
        prng.uniform_integers(prng.key(Builder("range"), 0), shape, low, high)


def test_not_a_number(run):
    types = [ElementType.F32, ElementType.BF16, ElementType.F8E8M0FNU, ElementType.F8E4M3FN]
    assert all(
        np.isnan(value) for value in run(lambda b: [constants.nan_value(b, t) for t in types])
    )
    for element_type in (ElementType.F4E2M1FN, ElementType.S32):
        with pytest.raises(InvalidArgumentError, match=f"got {element_type.text}"):
            constants.nan_value(Builder("nan"), element_type)

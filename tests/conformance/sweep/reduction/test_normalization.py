"""The batch-norm operations over drawn shapes, types and features, against XLA's CPU backend.

XLA expands them into operations of the operand's own type, so each result is held within a
multiple of that type's eps, measured by the largest number the expansion meets.
"""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.bounds_reductions import assert_within, info, magnitudes
from tests.conformance.sweep.draws.depth import drawn
from tests.conformance.sweep.draws.program import both
from xla_client import ops
from xla_contract.types.element_type import ElementType as E

FLOATS = (E.F32, E.F64, E.F16, E.BF16)


@st.composite
def normalised(draw: Any) -> tuple[E, tuple[int, ...], int, float, int]:
    """(type, sizes, feature dimension, epsilon, seed)"""
    sizes = draw(drawing.dimensions(1, 4, 6, zero=False))
    feature = draw(st.integers(0, len(sizes) - 1))
    epsilon = draw(st.sampled_from([0.1, 0.5, 1.0]))
    return draw(st.sampled_from(FLOATS)), sizes, feature, epsilon, draw(drawing.seeds())


def vectors(kind: E, count: int, seed: int, how_many: int) -> list[Any]:
    return [drawing.array(kind, (count,), seed + n + 1, special=False) for n in range(how_many)]


def assert_all_near(results: Any, kind: E, terms: int, *inputs: Any) -> None:
    """Each within 8 * (terms + 8) * eps of the products of the largest inputs."""
    largest = [max(1.0, float(magnitudes(item).max(initial=0))) for item in inputs]
    bound = 8 * (terms + 8) * float(info(kind.dtype).eps) * float(np.prod(largest))
    for ours, theirs in results:
        assert_within(ours, theirs, bound)


@drawn(3, 100)
@given(normalised())
def test_batch_norm_inference(case: Any) -> None:
    kind, sizes, feature, epsilon, seed = case
    operand = drawing.array(kind, sizes, seed, special=False)
    scale, offset, mean, variance = vectors(kind, sizes[feature], seed, 4)
    variance = np.abs(variance)
    results = both(
        lambda *x: ops.batch_norm_inference(*x, epsilon, feature),
        [operand, scale, offset, mean, variance],
    )
    spread = magnitudes(operand).max() + magnitudes(mean).max()
    assert_all_near(results, kind, 1, spread / np.sqrt(epsilon), scale, offset)


@drawn(3, 100)
@given(normalised())
def test_batch_norm_training(case: Any) -> None:
    kind, sizes, feature, epsilon, seed = case
    operand = drawing.array(kind, sizes, seed, special=False)
    scale, offset = vectors(kind, sizes[feature], seed, 2)
    results = both(
        lambda *x: ops.batch_norm_training(*x, epsilon, feature), [operand, scale, offset]
    )
    terms = operand.size // sizes[feature]
    # The variance is the difference of two numbers as large as the squares.
    spread = magnitudes(operand).max() ** 2
    assert_all_near(results, kind, terms, spread + 1, spread / epsilon, scale, offset)


@drawn(3, 100)
@given(normalised())
def test_batch_norm_grad(case: Any) -> None:
    kind, sizes, feature, epsilon, seed = case
    operand = drawing.array(kind, sizes, seed, special=False)
    gradient = drawing.array(kind, sizes, seed + 9, special=False)
    scale, mean, variance = vectors(kind, sizes[feature], seed, 3)
    variance = np.abs(variance)
    results = both(
        lambda *x: ops.batch_norm_grad(*x, epsilon, feature),
        [operand, scale, mean, variance, gradient],
    )
    terms = operand.size // sizes[feature]
    spread = (magnitudes(operand).max() + magnitudes(mean).max() + 1) ** 2 / epsilon**1.5
    assert_all_near(results, kind, terms, spread, scale, gradient, np.float64(terms))


@drawn(2, 40)
@given(normalised(), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_a_special_value_spoils_its_own_feature_only(case: Any, value: float) -> None:
    kind, sizes, feature, epsilon, seed = case
    operand = drawing.array(kind, sizes, seed, special=False)
    operand[(0,) * len(sizes)] = value
    scale, offset = vectors(kind, sizes[feature], seed, 2)
    results = both(
        lambda *x: ops.batch_norm_training(*x, epsilon, feature), [operand, scale, offset]
    )
    for ours, theirs in results:
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
        np.testing.assert_array_equal(np.isinf(ours), np.isinf(theirs))

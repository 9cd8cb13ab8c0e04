"""Reductions whose order is free: integers, floats by their keys, and several in one loop."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws.depth import paired
from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported, interpreted, on_cpu, texts_of
from tests.unit.passes.passing import drawn
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape

LENGTHS = [2, 5, 9, 15, 16, 17, 33, 64, 100, 1025, 5000]
FLOATS = [ElementType.F16, ElementType.BF16, ElementType.F32, ElementType.F64]
INTEGERS = [ElementType.S8, ElementType.U8, ElementType.S32, ElementType.U64]


def _checked(function: Callable[..., Any], *arguments: Any) -> list[str]:
    """The texts of a program's kernels, whose results are the interpreter's up to signs of zero.

    NumPy leaves open which of two zeros is the smaller one.
    """
    with jax.enable_x64(True):
        module = imported(lower(function, *arguments))
    for pair in zip(on_cpu(module, arguments), interpreted(module, arguments), strict=True):
        assert_equal_bits(*(np.where(part == 0, part.dtype.type(0), part) for part in pair))
    return texts_of(module)


def _rows(kind: ElementType, length: int, rows: int = 40) -> Any:
    return drawn(Shape.array(kind, (rows, length)), np.random.default_rng(length))


@pytest.mark.parametrize(
    ("length", "kind"),
    [
        pytest.param(length, kind, id=f"{length}-{kind.text}")
        for length, kind in [*paired(LENGTHS, FLOATS, 2), *paired(LENGTHS, INTEGERS, 2)]
    ],
)
def test_extrema_of_rows(length: int, kind: ElementType) -> None:
    rows = _rows(kind, length)
    _checked(lambda x: (jnp.max(x, 1), jnp.min(x, 1)), rows)
    _checked(lambda x: (jnp.max(x), jnp.min(x)), rows[:3])


@pytest.mark.parametrize("kind", INTEGERS, ids=lambda kind: kind.text)
@pytest.mark.parametrize("length", [7, 64, 1300])
def test_integers_and_truth_values_of_rows(kind: ElementType, length: int) -> None:
    x = _rows(kind, length)
    _checked(lambda x: (jnp.sum(x, 1, dtype=x.dtype), jnp.prod(x, 1, dtype=x.dtype)), x)
    _checked(lambda x: ((x > 3).any(1), (x > 0).all(1)), x)

    def bits(x: Any) -> Any:
        zero = x.dtype.type(0)
        return lax.reduce(x, zero, lax.bitwise_xor, (1,)), lax.reduce(x, zero, lax.bitwise_or, (1,))

    _checked(bits, x)


@pytest.mark.parametrize("kind", [ElementType.F32, ElementType.F64], ids=lambda kind: kind.text)
@pytest.mark.parametrize("length", [1, 3, 20, 100])
def test_zeros_of_either_sign_infinities_and_nan_are_in_order(
    kind: ElementType, length: int
) -> None:
    tiny = float(np.finfo(kind.dtype).smallest_subnormal)
    in_order = [-np.inf, -1.0, -tiny, -0.0, 0.0, tiny, 1.0, np.inf]
    for low, high in [*itertools.pairwise(in_order), (np.nan, 1.0), (-np.nan, -1.0)]:
        x = np.full((1, 2 * length), low, kind.dtype)
        x[0, length - 1] = high
        with jax.enable_x64(True):
            module = imported(lower(lambda x: (jnp.max(x, 1), jnp.min(x, 1)), x))
        largest, smallest = (float(np.asarray(each)[0]) for each in on_cpu(module, [x]))
        if np.isnan(low):
            assert np.isnan([largest, smallest]).all()
            continue
        # Subnormal numbers are zeros in programs, of their sign.
        wanted = [np.copysign(0.0, n) if abs(n) == tiny else n for n in (high, low)]
        for found, expected in zip((largest, smallest), wanted, strict=True):
            assert (found, np.signbit(found)) == (expected, np.signbit(expected))


def test_an_initial_value_is_combined_once() -> None:
    x = _rows(ElementType.F32, 50)
    _checked(lambda x: lax.reduce(x, np.float32(0.25), lax.max, (1,)), x)
    _checked(lambda x: lax.reduce(x, np.float32(np.nan), lax.min, (1,)), x)


def test_extrema_and_sums_of_a_row_are_one_loop() -> None:
    def program(x: Any) -> Any:
        e = jnp.exp(-jnp.abs(x))
        low, high = e.min(1, keepdims=True), e.max(1, keepdims=True)
        return (e - low) / (high - low)

    x = np.random.default_rng(0).standard_normal((100, 200)).astype(np.float32)
    module = imported(lower(program, x))
    np.testing.assert_allclose(on_cpu(module, [x])[0], interpreted(module, [x])[0], 1e-5, 1e-6)
    (text,) = texts_of(module)
    # One loop of both reductions, and that of the results.
    assert text.count("in range(200)") == 2
    assert text.count("exp_f32") == 1

"""Elementwise operations, conversions and data movement, lowered by JAX, against its numbers."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import assert_close, assert_equal_bits, by_both
from xla_contract.types.element_type import ElementType as E

SIGNED = (E.S4, E.S8, E.S16, E.S32, E.S64)
UNSIGNED = (E.U4, E.U8, E.U16, E.U32, E.U64)
INTEGERS = (*SIGNED, *UNSIGNED)
WIDE = (E.F32, E.F64)
FLOATS = (E.F16, E.BF16, *WIDE)
NARROW = (E.F8E4M3FN, E.F8E5M2, E.F8E4M3B11FNUZ, E.F4E2M1FN, E.F8E3M4)
COMPLEX = (E.C64, E.C128)
REAL = (E.PRED, *INTEGERS, *FLOATS, *NARROW)
EVERY = (*REAL, *COMPLEX)


def values(element_type: E, seed: int = 0, count: int = 96) -> Any:
    """Numbers of a type: random ones after those where functions are special."""
    random = np.random.default_rng([seed, element_type])
    dtype = element_type.dtype
    if element_type is E.PRED:
        return random.integers(0, 2, count).astype(dtype)
    if element_type.is_integer:
        width = element_type.bit_width
        low = -(2 ** (width - 1)) if element_type.is_signed_integer else 0
        special = [0, 1, 2, 3, low, low + 2**width - 1, width, (low + 2**width - 1) // 3]
        numbers = [*random.permutation(np.array(special, object)), *_integers(random, low, width)]
        return np.array(numbers[:count], np.int64 if low else np.uint64).astype(dtype)
    if element_type.is_complex:
        parts = random.standard_normal((2, count)) * 2
        return (parts[0] + 1j * parts[1]).astype(dtype)
    special = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-3, 30, -30]
    numbers = random.permutation(special)
    spread = random.standard_normal(count - len(numbers)) * np.exp(2 * random.random(1))
    return np.concatenate([numbers, spread]).astype(np.float32).astype(dtype)


def _integers(random: np.random.Generator, low: int, width: int) -> list[int]:
    above = random.integers(0, 2**width - 1, 96, np.uint64, endpoint=True)
    return [low + int(number) for number in above]


EXACT: dict[str, tuple[Callable[..., Any], int, tuple[E, ...]]] = {
    "abs": (lax.abs, 1, (*SIGNED[1:], *FLOATS, *NARROW)),
    "add": (lax.add, 2, (*INTEGERS, *FLOATS, *NARROW, *COMPLEX)),
    "and": (lax.bitwise_and, 2, (E.PRED, *INTEGERS)),
    "ceil": (lax.ceil, 1, FLOATS),
    "clamp": (lambda x: lax.clamp(x[3], x, x[20]), 1, (*INTEGERS, *FLOATS)),
    "clz": (lax.clz, 1, (*SIGNED[1:], *UNSIGNED[1:])),
    "divide": (lax.div, 2, (*INTEGERS, *FLOATS)),
    "eq": (lax.eq, 2, EVERY),
    "floor": (lax.floor, 1, FLOATS),
    "ge": (lax.ge, 2, (E.PRED, *INTEGERS, *FLOATS, *NARROW)),
    "imag": (lax.imag, 1, COMPLEX),
    "is_finite": (lax.is_finite, 1, FLOATS),
    "lt": (lax.lt, 2, (E.PRED, *INTEGERS, *FLOATS, *NARROW)),
    "max": (lax.max, 2, (E.PRED, *INTEGERS, *FLOATS, *NARROW)),
    "min": (lax.min, 2, (E.PRED, *INTEGERS, *FLOATS, *NARROW)),
    "mul": (lax.mul, 2, (*INTEGERS, *FLOATS, *NARROW)),
    "ne": (lax.ne, 2, EVERY),
    "neg": (lax.neg, 1, (*INTEGERS, *FLOATS, *NARROW, *COMPLEX)),
    "not": (lax.bitwise_not, 1, (E.PRED, *INTEGERS)),
    "or": (lax.bitwise_or, 2, (E.PRED, *INTEGERS)),
    "popcnt": (lax.population_count, 1, (*SIGNED[1:], *UNSIGNED[1:])),
    "real": (lax.real, 1, COMPLEX),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 4, 3), 1, FLOATS),
    "rem": (lax.rem, 2, (*INTEGERS, *FLOATS)),
    "round_afz": (lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO), 1, FLOATS),
    "round_even": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), 1, FLOATS),
    "select": (lambda x, y: lax.select(x == y, x, y[::-1]), 2, EVERY),
    "shift_left": (lax.shift_left, 2, INTEGERS),
    "shift_arithmetic": (lax.shift_right_arithmetic, 2, INTEGERS),
    "shift_logical": (lax.shift_right_logical, 2, INTEGERS),
    "sign": (lax.sign, 1, (*SIGNED, *FLOATS)),
    "sort_order": (lambda x: lax.sort(x), 1, FLOATS),
    "sqrt": (lax.sqrt, 1, WIDE),
    "sub": (lax.sub, 2, (*INTEGERS, *FLOATS, *NARROW, *COMPLEX)),
    "xor": (lax.bitwise_xor, 2, (E.PRED, *INTEGERS)),
}

CLOSE: dict[str, tuple[Callable[..., Any], int, float, tuple[E, ...]]] = {
    "abs_complex": (lax.abs, 1, 4, COMPLEX),
    "acos": (lax.acos, 1, 8, (*FLOATS, *COMPLEX)),
    "acosh": (lax.acosh, 1, 8, (*FLOATS, *COMPLEX)),
    "asin": (lax.asin, 1, 8, (*FLOATS, *COMPLEX)),
    "asinh": (lax.asinh, 1, 8, (*FLOATS, *COMPLEX)),
    "atan": (lax.atan, 1, 8, (*FLOATS, *COMPLEX)),
    "atan2": (lax.atan2, 2, 8, FLOATS),
    "atanh": (lax.atanh, 1, 16, (*FLOATS, *COMPLEX)),
    "cbrt": (lax.cbrt, 1, 8, FLOATS),
    "complex": (lax.complex, 2, 0, WIDE),
    "cos": (lax.cos, 1, 8, (*FLOATS, *COMPLEX)),
    "cosh": (lax.cosh, 1, 8, (*FLOATS, *COMPLEX)),
    "div": (lax.div, 2, 8, COMPLEX),
    "erf": (lax.erf, 1, 8, FLOATS),
    "exp": (lax.exp, 1, 8, (*FLOATS, *COMPLEX)),
    "expm1": (lax.expm1, 1, 8, (*FLOATS, *COMPLEX)),
    "log": (lax.log, 1, 8, (*FLOATS, *COMPLEX)),
    "log1p": (lax.log1p, 1, 8, (*FLOATS, *COMPLEX)),
    "logistic": (lax.logistic, 1, 8, (*FLOATS, *COMPLEX)),
    "mul_complex": (lax.mul, 2, 8, COMPLEX),
    "pow": (lax.pow, 2, 16, (*FLOATS, *COMPLEX)),
    "rsqrt": (lax.rsqrt, 1, 8, (*FLOATS, *COMPLEX)),
    "sign": (lax.sign, 1, 8, COMPLEX),
    "sin": (lax.sin, 1, 8, (*FLOATS, *COMPLEX)),
    "sinh": (lax.sinh, 1, 8, (*FLOATS, *COMPLEX)),
    "sqrt": (lax.sqrt, 1, 8, (*FLOATS, *COMPLEX)),
    "tan": (lax.tan, 1, 8, (*FLOATS, *COMPLEX)),
    "tanh": (lax.tanh, 1, 8, (*FLOATS, *COMPLEX)),
}

MOVEMENT: dict[str, Callable[[Any], Any]] = {
    "broadcast": lambda x: lax.broadcast_in_dim(x, (2, 8, 3, 12), (1, 3)),
    "concatenate": lambda x: lax.concatenate([x, x[2:5], x[:0]], 0),
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (np.int32(-3), np.int32(9)), (3, 5)),
    "dynamic_update": lambda x: lax.dynamic_update_slice(x, x[:3, :4], (np.int32(7), np.int32(2))),
    "pad": lambda x: lax.pad(x, x[0, 0], ((-2, 3, 0), (1, -4, 2))),
    "pad_away": lambda x: lax.pad(x, x[0, 0], ((-20, 30, 1), (-5, 0, 3))),
    "reshape": lambda x: lax.reshape(x, (6, 1, 16)),
    "reverse": lambda x: lax.rev(x, (1,)),
    "slice": lambda x: lax.slice(x, (1, 0), (8, 11), (3, 2)),
    "transpose": lambda x: lax.transpose(x, (1, 0)),
    "tuple": lambda x: (x, (x[0], x.T)),
}


def operands(arity: int, element_type: E) -> list[Any]:
    return [values(element_type, seed) for seed in range(arity)]


def check(
    function: Callable[..., Any],
    arity: int,
    types: Sequence[E],
    compare: Callable[[Any, Any], None],
) -> None:
    """Compare results for operands of every type, which one program computes side by side."""
    given = [operand for element_type in types for operand in operands(arity, element_type)]

    def program(*arrays: Any) -> list[Any]:
        return [function(*arrays[n : n + arity]) for n in range(0, len(arrays), arity)]

    results = by_both(program, given)
    for element_type, (ours, theirs) in zip(types, results, strict=True):
        try:
            compare(ours, theirs)
        except AssertionError as error:
            raise AssertionError(f"{element_type.text}: {error}") from None


@pytest.mark.parametrize("name", EXACT)
def test_exact(name: str) -> None:
    check(*EXACT[name], assert_equal_bits)


@pytest.mark.parametrize("name", CLOSE)
def test_within_a_few_units_in_the_last_place(name: str) -> None:
    function, arity, ulps, types = CLOSE[name]
    check(function, arity, types, functools.partial(assert_close, ulps=ulps))


def test_conversions_to_predicates() -> None:
    """JAX writes them as comparisons; other real conversions are in test_exactness.py."""
    check(lambda x: lax.convert_element_type(x, np.bool_), 1, REAL, assert_equal_bits)


@pytest.mark.parametrize("target", COMPLEX, ids=lambda t: t.text)
def test_conversions_to_complex_numbers(target: E) -> None:
    check(lambda x: lax.convert_element_type(x, target.dtype), 1, EVERY, assert_equal_bits)


@pytest.mark.parametrize(
    "element_type", [E.PRED, E.U4, E.S32, E.BF16, E.F8E5M2, E.C64, E.F4E2M1FN], ids=lambda t: t.text
)
@pytest.mark.parametrize("name", MOVEMENT)
def test_movement(name: str, element_type: E) -> None:
    function = MOVEMENT[name]
    given = [values(element_type).reshape(8, 12)]
    for ours, theirs in by_both(function, given):
        assert_equal_bits(ours, theirs)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (E.F32, E.S32),
        (E.F32, E.U8),
        (E.U8, E.F32),
        (E.S64, E.BF16),
        (E.U4, E.S8),
        (E.S8, E.U4),
        (E.F16, E.U4),
        (E.U32, E.F64),
    ],
)
def test_bitcast_convert(source: E, target: E) -> None:
    ratio = max(1, target.bit_width // source.bit_width)
    given = [values(source).reshape((-1, ratio) if ratio > 1 else (-1,))]

    def function(x: Any) -> Any:
        return lax.bitcast_convert_type(x, target.dtype)

    ((ours, theirs),) = by_both(function, given)
    assert_equal_bits(ours, theirs)


@pytest.mark.parametrize(
    "element_type", [E.U4, E.S8, E.S32, *FLOATS, E.F8E4M3FN, E.C64], ids=lambda t: t.text
)
def test_iota(element_type: E) -> None:
    def function() -> Any:
        return lax.broadcasted_iota(element_type.dtype, (2, 7, 3), 1)

    ((ours, theirs),) = by_both(function, [])
    assert_equal_bits(ours, theirs)


def test_scalars_stay_arrays() -> None:
    def function(x: Any) -> Any:
        return jnp.exp(lax.dynamic_index_in_dim(x, 1, keepdims=False)), x[2], jax.nn.relu(x[0])

    given = [np.array([1.0, 2.0, 3.0], np.float32)]
    for ours, theirs in by_both(function, given):
        assert_close(ours, theirs, 2)

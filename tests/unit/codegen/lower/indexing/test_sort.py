from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from tests.building import scalars
from tests.unit.codegen.compiled import built, on_cpu, texts_of
from tests.unit.codegen.from_jax import assert_same_as_jax
from xla_client import ops
from xla_client.lib import sorting
from xla_client.programs.computation import Computation

DTYPES = [
    *("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"),
    *(ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4, ml_dtypes.uint4),
]
Same = Callable[..., None]
FLOATS = ["f2", "f4", "f8", ml_dtypes.bfloat16, ml_dtypes.float8_e5m2]


def values(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> Any:
    """Numbers of a type with many duplicates, its extremes, and all that floats have."""
    random = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if np.issubdtype(dtype, np.integer):
        bounds = np.iinfo(dtype)
        found = random.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)
        return np.where(random.random(shape) < 0.3, random.integers(0, 4, shape, dtype), found)
    found = (random.integers(-5, 5, shape) / 2).astype(dtype)
    if dtype.kind == "f":
        special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-40], dtype)
        chosen = special[random.integers(0, len(special), shape)]
        found = np.where(random.random(shape) < 0.4, chosen, found)
    return found


def comparator(function: Callable[..., Any], *dtypes: Any) -> Computation:
    return scalars(function, *(dtype for dtype in dtypes for _ in "ab"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("descending", [False, True])
def test_keys_of_every_type(assert_same: Same, dtype: Any, descending: bool) -> None:
    x = values(dtype, (3, 100))
    assert_same(lambda a: ops.tuple(sorting.sort_with_indices(a, descending=descending)), x)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 31, 32, 33, 257, 1000])
@pytest.mark.parametrize("dtype", ["i4", "u8"])
def test_every_length(assert_same: Same, length: int, dtype: str) -> None:
    x = values(dtype, (length, 2))
    assert_same(lambda a: ops.tuple(sorting.sort_with_indices(a, 0)), x)


def test_more_rows_than_are_sorted_side_by_side(assert_same: Same) -> None:
    assert_same(lambda a: sorting.sort(a, 1), values("f4", (67, 5, 3)))


@pytest.mark.parametrize("dimension", [0, 1, 2])
def test_every_dimension(assert_same: Same, dimension: int) -> None:
    x, y = values("f4", (5, 40, 3)), values("i2", (5, 40, 3), 1)
    less = comparator(lambda a, b, c, d: ops.lt_total_order(a, b), "f4", "i2")
    assert_same(lambda a, b: ops.sort([a, b], less, dimension, is_stable=True), x, y)
    either = comparator(
        lambda a, b, c, d: ops.or_(ops.lt(c, d), ops.and_(ops.eq(c, d), ops.gt_total_order(a, b))),
        "f4",
        "i2",
    )
    assert_same(lambda a, b: ops.sort([a, b], either, dimension, is_stable=True), x, y)


@pytest.mark.parametrize("length", [2, 3, 64, 101])
def test_a_comparator_that_has_no_key_is_asked(assert_same: Same, length: int) -> None:
    nearer = comparator(
        lambda a, b: ops.or_(ops.lt(a * a, b * b), ops.and_(ops.eq(a * a, b * b), ops.lt(a, b))),
        "f4",
    )
    x = (np.random.default_rng(7).integers(-9, 9, (4, length))).astype(np.float32)
    assert_same(lambda a: ops.sort(a, nearer), x)


def test_a_key_may_be_computed_from_several_operands(assert_same: Same) -> None:
    less = comparator(lambda a, b, c, d: ops.gt(a * c, b * d), "i4", "i4")
    x, y = values("i4", (200,)), values("i4", (200,), 3)
    assert_same(lambda a, b: ops.sort([a, b], less, is_stable=True), x, y)


def test_zeros_of_both_signs_are_equal_where_the_comparator_says_so(assert_same: Same) -> None:
    x = np.array([0.0, -0.0, 1, -1, -0.0, 0.0] * 9, np.float32)
    for compare in (ops.lt, ops.gt):
        order = comparator(compare, "f4")
        assert_same(lambda a, order=order: ops.sort(a, order, is_stable=True), x)


def test_a_comparator_that_contradicts_itself_gives_some_permutation() -> None:
    always = comparator(lambda a, b: ops.ge(a, b), "i4")
    module = built(lambda a: ops.sort(a, always), [x := values("i4", (50,))])
    (found,) = on_cpu(module, [x])
    np.testing.assert_array_equal(np.sort(found), np.sort(x))


@pytest.mark.parametrize(
    ("length", "k", "in_heap"),
    [(64, 8, True), (64, 9, False), (256, 16, True), (512, 32, False), (60_000, 1000, True)],
)
def test_few_of_many_are_kept_in_a_heap(length: int, k: int, in_heap: bool) -> None:
    module = built(lambda a: ops.top_k(a, k), [np.zeros((2, length), np.float32)])
    (text,) = texts_of(module)
    assert ("keep_entry" in text, "sort_entries" in text) == (in_heap, not in_heap)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_first_k_of_every_type(assert_same: Same, dtype: Any) -> None:
    x = values(dtype, (2, 3, 100))
    assert_same(lambda a: ops.top_k(a, 7), x)
    assert_same(lambda a: ops.top_k(a, 70, largest=False), x)


@pytest.mark.parametrize(
    ("length", "k"), [(1, 1), *((100, k) for k in (0, 1, 12, 13, 100)), (513, 30)]
)
@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_any_k(assert_same: Same, dtype: str, length: int, k: int) -> None:
    x = values(dtype, (2, length))
    assert_same(lambda a: ops.top_k(a, k, largest=k % 2 == 0), x)


@pytest.mark.parametrize("dtype", ["i4", "u1", *FLOATS])
def test_orders_that_jax_writes(dtype: Any) -> None:
    x = values(dtype, (4, 50))
    assert_same_as_jax(jnp.sort, x)
    assert_same_as_jax(lambda a: jnp.sort(a, axis=0, descending=True), x)
    assert_same_as_jax(lambda a: jnp.argsort(a, axis=-1), x)
    assert_same_as_jax(lambda a: jnp.argsort(a, axis=0, stable=False, descending=True), x)


def test_several_keys_of_jax() -> None:
    x, y = values("f4", (300,)), values("i4", (300,)) % 4
    assert_same_as_jax(lambda a, b: jnp.lexsort((a, b)), x, y)
    assert_same_as_jax(lambda a, b: jax.lax.sort((b, a), num_keys=2), x, y)
    assert_same_as_jax(lambda a: jnp.median(a), np.abs(y).astype(np.float32))
    assert_same_as_jax(lambda b: jnp.unique(b, size=8), y)


@pytest.mark.parametrize("dtype", ["f4", "i4", ml_dtypes.bfloat16])
def test_top_k_of_jax(dtype: Any) -> None:
    x = values(dtype, (3, 64))
    assert_same_as_jax(lambda a: jax.lax.top_k(a, 5), x)
    assert_same_as_jax(lambda a: jax.lax.top_k(a, 60), x)

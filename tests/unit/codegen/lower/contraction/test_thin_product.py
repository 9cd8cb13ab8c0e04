"""Products of a large matrix with few vectors, which pack nothing."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.jax.programs import lower
from tests.processors import HOST, TARGET
from tests.unit.codegen.compiled import imported, on_cpu, texts_of
from xla_server.backends.compiled.compilation import compile_module
from xla_server.backends.compiled.cpu import Cpu
from xla_server.codegen.lower.contraction.thin_product import ThinProduct
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.routines.contraction.thin_products import OUTER_HEIGHTS, inner_heights
from xla_server.ir.module import HloModule
from xla_server.passes.canonicalize.dots.thin_dots import ThinDot

TUNED = TARGET.tuning.thin_products
_RANDOM = np.random.default_rng(7)


def _drawn(dtype: Any, *sizes: int) -> Any:
    return _RANDOM.standard_normal(sizes).astype(dtype)


def _module(function: Any, *arguments: Any) -> HloModule:
    with jax.enable_x64(arguments[0].dtype == np.float64):
        return imported(lower(function, *arguments))


def _assert_product(found: Any, left: Any, right: Any) -> None:
    # BLAS adds up some products of f64 in sequence, with more than the error allowed here.
    wanted = left.astype(np.longdouble) @ right.astype(np.longdouble)
    bound = 16 * np.finfo(left.dtype).eps * left.shape[-1] ** 0.5 * 4
    np.testing.assert_allclose(found, wanted, rtol=0, atol=bound)


INNER = {
    "whole vectors": (1, 700, 128),
    "a part of a vector": (1, 701, 131),
    "several runs": (1, 70, 2311),
    "a run of one product more": (1, 70, 1025),
    "a batch": (3, 130, 190),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", INNER)
@pytest.mark.parametrize("vectors", [1, 2, 3, 4, 5, 8])
def test_rows_of_a_matrix_on_either_side(dtype: Any, sizes: str, vectors: int) -> None:
    batch, count, depth = INNER[sizes]
    matrix, few = _drawn(dtype, batch, count, depth), _drawn(dtype, batch, vectors, depth)
    turned = few.swapaxes(1, 2).copy()

    def products(matrix: Any, few: Any, turned: Any) -> Any:
        batches = ((0,), (0,))
        return [
            lax.dot_general(a, b, (((at_a,), (at_b,)), batches))
            for a, at_a, b, at_b in (
                (few, 2, matrix, 2),
                (turned, 1, matrix, 2),
                (matrix, 2, few, 2),
                (matrix, 2, turned, 1),
            )
        ]

    module = _module(products, matrix, few, turned)
    if vectors > 1:
        assert sum("thin_inner" in text for text in texts_of(module)) == 4
    found = on_cpu(module, [matrix, few, turned])
    for product in found[:2]:
        _assert_product(product, few, matrix.swapaxes(1, 2))
    for product in found[2:]:
        _assert_product(product, matrix, turned)


@pytest.mark.parametrize("depth", [3001, 20001])
def test_deep_products_with_few_results(depth: int) -> None:
    left, right = _drawn(np.float64, 8, depth), _drawn(np.float64, depth, 2)
    module = _module(lambda a, b: [a @ b, b.T @ a.T], left, right)
    texts = texts_of(module)
    assert sum("thin_inner" in text for text in texts) == 2
    assert sum("join_" in text for text in texts) == (2 if depth > 3001 else 0)
    found = on_cpu(module, [left, right])
    _assert_product(found[0], left, right)
    _assert_product(found[1], right.T, left.T)


OUTER = {
    "whole vectors": (1, 512, 96),
    "a part of a vector": (1, 701, 131),
    "several blocks": (1, 9001, 70),
    "fewer rows than are added together": (1, 9001, 5),
    "a batch": (5, 130, 190),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", OUTER)
def test_columns_of_the_right_matrix(dtype: Any, sizes: str) -> None:
    batch, count, depth = OUTER[sizes]
    matrix, few = _drawn(dtype, batch, depth, count), _drawn(dtype, batch, 2, depth)
    turned = few.swapaxes(1, 2).copy()

    def products(matrix: Any, few: Any, turned: Any) -> Any:
        batches = ((0,), (0,))
        return [
            lax.dot_general(a, matrix, (((at,), (1,)), batches))
            for a, at in ((few, 2), (turned, 1))
        ]

    module = _module(products, matrix, few, turned)
    assert sum("thin_outer" in text for text in texts_of(module)) == 2
    for product in on_cpu(module, [matrix, few, turned]):
        _assert_product(product, few, matrix)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_vector_and_a_large_matrix(is_first: bool) -> None:
    matrix, vector = _drawn(np.float32, 1201, 1103), _drawn(np.float32, 1201 if is_first else 1103)
    left, right = (vector, matrix) if is_first else (matrix, vector)
    module = _module(jnp.matmul, left, right)
    name = "thin_outer_f32_1" if is_first else "thin_inner_f32_1"
    assert any(name in text for text in texts_of(module))
    (found,) = on_cpu(module, [left, right])
    np.testing.assert_allclose(found, left @ right, rtol=0, atol=1e-3)


def test_a_vector_and_columns_of_the_left_matrix() -> None:
    matrix, vector = _drawn(np.float32, 1103, 1201), _drawn(np.float32, 1103, 1)
    module = _module(lambda a, b: a.T @ b, matrix, vector)
    assert any("thin_outer_f32_1" in text for text in texts_of(module))
    (found,) = on_cpu(module, [matrix, vector])
    _assert_product(found, matrix.T, vector)


def test_what_is_not_finite_stays_in_its_row_and_column() -> None:
    for left, right in (
        (_drawn(np.float32, 3, 150), _drawn(np.float32, 211, 150).T),
        (_drawn(np.float32, 2, 150), _drawn(np.float32, 150, 211)),
    ):
        left[1, 149], right[148, 7] = np.nan, np.inf
        order = right.T.copy() if right.strides[0] < right.strides[1] else right
        transposed = order is not right
        module = _module(lambda a, b, t=transposed: a @ (b.T if t else b), left, order)
        assert any("thin_" in text for text in texts_of(module))
        (found,) = on_cpu(module, [left, order])
        assert np.isnan(found[1]).all()
        assert not np.isfinite(found[:, 7]).any()
        assert np.isfinite(np.delete(np.delete(found, 7, 1), 1, 0)).all()


@pytest.mark.parametrize("transposed", [True, False])
def test_the_same_bits_on_any_number_of_threads(transposed: bool) -> None:
    few = _drawn(np.float32, 2, 900)
    matrix = _drawn(np.float32, *((1300, 900) if transposed else (900, 1300)))
    module = _module(lambda a, b: a @ (b.T if transposed else b), few, matrix)
    assert_equal_bits(*(on_cpu(module, [few, matrix], Cpu(threads=n))[0] for n in (1, 3)))


def test_an_epilogue_of_whole_rows_follows_a_product_divided_by_columns() -> None:
    few, matrix = _drawn(np.float32, 3, 300), _drawn(np.float32, 2000, 300)

    def weights(x: Any, w: Any) -> Any:
        return jax.nn.softmax(x @ w.T)

    module = _module(weights, few, matrix)
    rows = kernels_of(compile_module(module).code)
    assert max(row.work_items for row in rows if "thin_inner" in row.source) > 1
    (found,) = on_cpu(module, [few, matrix])
    np.testing.assert_allclose(found, weights(few, matrix), rtol=1e-3, atol=1e-6)


def test_an_epilogue_of_columns_and_one_of_rows() -> None:
    few, matrix, bias = _drawn(np.float32, 3, 300), _drawn(np.float32, 700, 300), 2.0

    def right(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w.T) * bias

    def left(x: Any, w: Any) -> Any:
        product = w @ x.T
        return product, product / jnp.sum(jnp.abs(product), axis=1, keepdims=True)

    for function in (right, left):
        module = _module(function, few, matrix)
        wanted = jax.tree.leaves(function(few, matrix))
        for found, expected in zip(on_cpu(module, [few, matrix]), wanted, strict=True):
            np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-4)


def _thin(count: int, vectors: int, depth: int, *, batch: int = 1, inner: bool) -> ThinProduct:
    dot = ThinDot(batch, count, vectors, depth, True, inner, vectors_are_rows=True)
    return ThinProduct(TARGET, "f32", dot)


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize(
    ("count", "depth"), [(50257, 768), (4096, 1024), (100, 40000), (7, 70000), (300_000, 400)]
)
def test_work_items_cover_the_results_and_are_of_bounded_size(
    count: int, depth: int, inner: bool
) -> None:
    thin = _thin(count, 2, depth, inner=inner)
    assert (thin.blocks - 1) * thin.block < count <= thin.blocks * thin.block
    assert 1 <= thin.run <= max(depth, 16)
    if inner and count > 8:
        assert thin.blocks >= min(TUNED.even_items, count * depth * 4 // TUNED.min_even_bytes) // 2
    if count * depth > 1 << 24:
        assert thin.blocks >= 8


def test_a_batch_is_divided_less() -> None:
    alone, many = (_thin(4096, 2, 1024, batch=n, inner=True) for n in (1, 64))
    assert alone.blocks > many.blocks == 1


def test_heights_are_the_smallest_that_hold_the_vectors() -> None:
    for inner, heights in ((True, inner_heights(HOST)), (False, OUTER_HEIGHTS)):
        for vectors, height in itertools.product(range(1, 9), heights):
            chosen = _thin(4096, vectors, 1024, inner=inner).height
            assert chosen in heights
            assert not vectors <= height < chosen

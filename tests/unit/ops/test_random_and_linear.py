"""rng, cholesky, triangular-solve, fft, topk and batch-norm beyond what the oracle shows."""

import ml_dtypes
import numpy as np

from tests.corpus.root_text import run_text


def test_a_seed_repeats_its_numbers_and_no_seed_does_not() -> None:
    root, bounds = "f32[100] rng(x0, x1), distribution=rng_normal", [np.float32(0), np.float32(1)]
    draws = [run_text(["f32[]"] * 2, root, bounds, seed=seed) for seed in (7, 7, 0, 0)]
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[2], draws[3])


def test_a_matrix_without_a_factor_is_nan_and_its_neighbour_is_not() -> None:
    matrices = np.array([[[4, 9], [2, 5]], [[1, 0], [2, 1]]], np.float32)
    factors = run_text(["f32[2,2,2]"], "f32[2,2,2] cholesky(x0), lower=true", [matrices])
    np.testing.assert_array_equal(factors[0], [[2, 0], [1, 2]])
    assert np.isnan(factors[1]).all()


def test_a_matrix_with_nan_in_a_pivot_is_nan_all_over() -> None:
    """The factor that OpenBLAS returns for it begins with numbers."""
    matrix = np.diag([4, np.nan, 9]).astype(np.float32)
    assert np.isnan(run_text(["f32[3,3]"], "f32[3,3] cholesky(x0), lower=true", [matrix])).all()


def test_a_singular_triangle_gives_infinities() -> None:
    found = run_text(
        ["f32[1,1]", "f32[1,1]"],
        "f32[1,1] triangular-solve(x0, x1), left_side=true, lower=true, unit_diagonal=false, "
        "transpose_a=NO_TRANSPOSE",
        [np.zeros((1, 1), np.float32), np.ones((1, 1), np.float32)],
    )
    assert np.isinf(found).all()


def test_topk_orders_floats_totally_and_ties_by_index() -> None:
    root = "(bf16[6], s32[6]) topk(x0), k=6, largest=true"
    values = np.array([0.0, -0.0, np.nan, np.inf, 2, 2], np.float32).astype(ml_dtypes.bfloat16)
    _, positions = run_text(["bf16[6]"], root, [values])
    np.testing.assert_array_equal(positions, [2, 3, 4, 5, 0, 1])

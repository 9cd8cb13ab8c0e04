"""Targets are held against their rules before anything runs."""

from typing import Any

import numpy as np
import pytest

from tests.corpus.single_op import result_of
from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.control.custom_call import CustomCallAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape

SQUARE = np.array([[4, 2], [2, 3]], np.float32)
TALL = np.array([[3, 1], [4, 2], [0, 5]], np.float32)


def call(target: str, shape: str, *operands: Any, config: str = "") -> Any:
    attributes = CustomCallAttributes(target, Shape.parse(shape), config.encode())
    return result_of(Opcode.CUSTOM_CALL, *operands, attributes=attributes)


@pytest.mark.parametrize(
    ("target", "shape", "config", "words"),
    [
        ("lapack_spotrf_ffi", "(f32[2,2], s32[])", "{uplo = 77 : ui8}", "uplo must be 76"),
        ("lapack_spotrf_ffi", "(f32[2,2], s32[])", "{uplo = true}", "got True"),
        ("lapack_spotrf_ffi", "(f32[2,2], s32[])", "{uplo", "position"),
        ("lapack_spotrf_ffi", "(f32[3,3], s32[])", "{uplo = 76 : ui8}", r"f32\[3,3\].*f32\[2,2\]"),
        ("lapack_dpotrf_ffi", "(f32[2,2], s32[])", "{uplo = 76 : ui8}", "takes f64"),
        ("lapack_sgehrd_ffi", "(f32[2,2], f32[1], s32[])", "{low = 0 : i32, high = 2}", "low 0"),
        ("lapack_sgehrd_ffi", "(f32[2,2], f32[1], s32[])", "{low = 1, high = 3}", "high 3"),
        ("lapack_strsm_ffi", "f32[2,2]", "{}", "takes 2 arrays"),
        ("Eigh", "(f32[2,2], f32[2])", "what", "Eigh takes lower"),
        ("TopK", "(f32[2,3], s32[2,3])", "", "at most what there is"),
        ("Sharding", "f32[2]", "", "declared shape"),
        ("AllocateBuffer", "f32[2]", "", "takes no values, got 1"),
    ],
)
def test_what_a_target_does_not_take_is_invalid(
    target: str, shape: str, config: str, words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^custom-call %root: .*{words}"):
        call(target, shape, SQUARE, config=config)


def test_operands_must_fit_each_other() -> None:
    config = "{diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8}"
    for other in (np.ones((3, 1), np.float32), np.ones(2, np.float32)):
        with pytest.raises(ShapeError):
            call("lapack_strsm_ffi", "f32[3,1]", SQUARE, other, config=config)
    with pytest.raises(ShapeError, match="same batch"):
        call("lapack_strsm_ffi", "f32[2,2,2]", SQUARE[None], np.stack([SQUARE] * 2), config=config)
    with pytest.raises(ShapeError, match="reflectors"):
        call("lapack_sorgqr_ffi", "f32[2,2]", SQUARE, np.ones(3, np.float32))
    with pytest.raises(ShapeError, match=r"must be square, got matrices \(f32\[3,2\]\)"):
        call("lapack_spotrf_ffi", "(f32[3,2], s32[])", TALL, config="{uplo = 76 : ui8}")


def test_the_status_tells_what_has_no_factor() -> None:
    factor, status = call(
        "lapack_spotrf_ffi",
        "(f32[2,2,2], s32[2])",
        np.stack([SQUARE, -SQUARE]),
        config="{uplo = 76 : ui8}",
    )
    assert status.tolist() == [0, 1]
    np.testing.assert_allclose(np.tril(factor[0]), np.linalg.cholesky(SQUARE), rtol=1e-6)


@pytest.mark.parametrize("leading", [[0, 0], [0, 1], [1, 0]])
def test_columns_with_a_pivot_lead(leading: list[int]) -> None:
    shape = "(f32[3,2], s32[2], f32[2])"
    packed, order, taus = call("lapack_sgeqp3_ffi", shape, TALL, np.int32(leading))
    # The second column is the longer one.
    assert order.tolist() == ([1, 2] if leading[0] else [2, 1])
    q = call("ProductOfElementaryHouseholderReflectors", "f32[3,2]", packed, taus)
    np.testing.assert_allclose(q @ np.triu(packed)[:2], TALL[:, order - 1], atol=1e-5)


def test_a_singular_tridiagonal_system_has_a_large_answer() -> None:
    diagonals = [np.float32([0, 1, 1]), np.float32([1, 1, 0]), np.float32([1, 1, 0])]
    right = np.float32([[1], [2], [3]])
    solution = call("tridiagonal_solve_perturbed_ffi", "f32[3,1]", *diagonals, right)
    matrix = np.diag(diagonals[1]) + np.diag([1, 1], 1) + np.diag([1, 1], -1)
    np.testing.assert_allclose(matrix @ solution, right, rtol=1e-5)
    nothing = np.zeros(3, np.float32)
    large = call("tridiagonal_solve_perturbed_ffi", "f32[3,1]", nothing, nothing, nothing, right)
    assert np.isfinite(large).all()
    assert (large > 1e30).all()


def test_portable_factors() -> None:
    packed, taus = call("Qr", "(f32[3,2], f32[2])", TALL)
    q = call("ProductOfElementaryHouseholderReflectors", "f32[3,2]", packed, taus)
    np.testing.assert_allclose(q @ np.triu(packed)[:2], TALL, atol=1e-5)
    factors, pivots, order = call("LuDecomposition", "(f32[3,2], s32[2], s32[3])", TALL)
    lower = np.tril(factors, -1) + np.eye(3, 2, dtype=np.float32)
    np.testing.assert_allclose(lower @ np.triu(factors)[:2], TALL[order], atol=1e-5)
    assert (pivots.tolist(), order.tolist()) == ([1, 2], [1, 2, 0])
    vectors, values = call("Eigh", "(f32[2,2], f32[2])", SQUARE, config="1,1,100,1e-6")
    np.testing.assert_allclose(SQUARE @ vectors, vectors * values, atol=1e-5)


def test_topk_gives_the_largest_by_position() -> None:
    values, positions = call("TopK", "(f32[2,2], s32[2,2])", np.float32([[1, 3, 3], [5, 4, 6]]))
    assert values.tolist() == [[3, 3], [6, 5]]
    assert positions.tolist() == [[1, 2], [2, 0]]


@pytest.mark.parametrize("shape", ["f32[2,3]", "s4[0]", "c64[]"])
def test_the_elements_of_an_empty_array_are_zeros(shape: str) -> None:
    given = call("AllocateBuffer", shape)
    assert Shape.array(ElementType.from_dtype(given.dtype), given.shape) == Shape.parse(shape)
    assert not given.any()


@pytest.mark.parametrize(
    "target", ["Sharding", "ShardBarrierTo", "SPMDFullToShardShape", "annotate_device_placement"]
)
def test_markers_change_nothing(target: str) -> None:
    np.testing.assert_array_equal(call(target, "f32[2,2]", SQUARE), SQUARE)

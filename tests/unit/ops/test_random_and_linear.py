"""rng, cholesky, triangular-solve, fft, topk and batch-norm beyond what the oracle shows."""

import ml_dtypes
import numpy as np
import pytest

from tests.corpus.hlo_programs import program
from tests.corpus.hlo_text import parse_hlo
from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.definitions import definition, infer_shape
from xla_contract.ops.linear_algebra.fft import FftAttributes, FftType
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.importer import import_module


def run(parameters: list[str], root: str, *given: object) -> np.ndarray:
    module = import_module(parse_hlo(program(parameters, root)))
    result = evaluate(module, given, check_values=True)  # type: ignore[arg-type]
    assert isinstance(result, np.ndarray)
    return result


def test_a_seed_repeats_its_numbers_and_no_seed_does_not() -> None:
    text = program(["f32[]", "f32[]"], "f32[100] rng(x0, x1), distribution=rng_normal")
    module = import_module(parse_hlo(text))
    bounds = [np.float32(0), np.float32(1)]
    draws = [evaluate(module, [np.asarray(b) for b in bounds], seed=seed) for seed in (7, 7, 0, 0)]
    assert np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[2], draws[3])


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("f32", -1, 3), ("s32", -5, 7), ("u8", 0, 255), ("bf16", 0, 1)]
)
def test_uniform_numbers_fill_a_half_open_range(kind: str, low: int, high: int) -> None:
    bounds = [
        np.asarray(bound).astype(Shape.parse(f"{kind}[]").element_type.dtype)
        for bound in (low, high)
    ]
    drawn = run(
        [f"{kind}[]", f"{kind}[]"],
        f"{kind}[10000] rng(x0, x1), distribution=rng_uniform",
        *bounds,
    ).astype(np.float64)
    assert drawn.min() >= low
    assert drawn.max() < high
    assert abs(drawn.mean() - (low + high) / 2) < 0.05 * (high - low)


def test_normal_numbers_have_mean_and_deviation_and_differ_every_time() -> None:
    given = np.float32(3), np.float32(2)
    arrays = [
        run(
            ["f32[]", "f32[]"],
            "f32[10000] rng(x0, x1), distribution=rng_normal",
            *map(np.asarray, given),
        )
        for _ in range(2)
    ]
    assert abs(arrays[0].mean() - 3) < 0.2
    assert abs(arrays[0].std() - 2) < 0.2
    assert not np.array_equal(*arrays)


def test_a_matrix_without_a_factor_is_nan_and_its_neighbour_is_not() -> None:
    matrices = np.array([[[4, 9], [2, 5]], [[1, 0], [2, 1]]], np.float32)
    factors = run(["f32[2,2,2]"], "f32[2,2,2] cholesky(x0), lower=true", matrices)
    np.testing.assert_array_equal(factors[0], [[2, 0], [1, 2]])
    assert np.isnan(factors[1]).all()


def test_a_matrix_with_nan_in_a_pivot_is_nan_all_over() -> None:
    """The factor that OpenBLAS returns for it begins with numbers."""
    matrix = np.diag([4, np.nan, 9]).astype(np.float32)
    assert np.isnan(run(["f32[3,3]"], "f32[3,3] cholesky(x0), lower=true", matrix)).all()


def test_a_singular_triangle_gives_infinities() -> None:
    found = run(
        ["f32[1,1]", "f32[1,1]"],
        "f32[1,1] triangular-solve(x0, x1), left_side=true, lower=true, unit_diagonal=false, "
        "transpose_a=NO_TRANSPOSE",
        np.zeros((1, 1), np.float32),
        np.ones((1, 1), np.float32),
    )
    assert np.isinf(found).all()


def test_topk_orders_floats_totally_and_ties_by_index() -> None:
    module = import_module(
        parse_hlo(program(["bf16[6]"], "(bf16[6], s32[6]) topk(x0), k=6, largest=true"))
    )
    values = np.array([0.0, -0.0, np.nan, np.inf, 2, 2], np.float32).astype(ml_dtypes.bfloat16)
    _, places = evaluate(module, [values])  # type: ignore[misc]
    np.testing.assert_array_equal(places, [2, 3, 4, 5, 0, 1])


def test_what_rng_must_say_on_the_wire() -> None:
    with pytest.raises(InvalidArgumentError, match=r"1 \(uniform\), 2 \(normal\), got 0"):
        definition(Opcode.RNG).decode(hlo_pb2.HloInstructionProto(), Shape.parse("f32[2]"))


def test_a_real_transform_has_the_length_of_its_operand() -> None:
    with pytest.raises(ShapeError, match=r"\[4\], got f32\[5\]"):
        infer_shape(Opcode.FFT, [Shape.parse("f32[5]")], FftAttributes(FftType.RFFT, (4,)))

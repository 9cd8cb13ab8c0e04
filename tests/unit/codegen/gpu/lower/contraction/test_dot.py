"""Dots for a GPU: plans of the library, dots without one, and results."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from tests.cuda.checks.outcomes import assert_near
from tests.cuda_twin.lowered import compiled, grids, lowered
from tests.cuda_twin.rows import plans, results_of
from tests.unit.codegen.compiled import imported, interpreted
from xla_contract.stubs import xla_data_pb2
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode
from xla_server.codegen.gpu.lower.contraction.dot import plan_of
from xla_server.codegen.gpu.plans.library_plans import GemmPlan, Matrix
from xla_server.ir.module import HloInstruction, HloModule


def numbers(dtype: Any, *sizes: int) -> Any:
    drawn = np.random.default_rng(sizes[-1]).standard_normal((2, *sizes)) * 3
    if np.dtype(dtype).kind == "c":
        return (drawn[0] + 1j * drawn[1]).astype(dtype)
    return np.array(jnp.asarray(drawn[0], dtype))


def module_of(function: Callable[..., Any], *arguments: Any) -> HloModule:
    return imported(lower(function, *arguments))


def dot_of(module: HloModule) -> HloInstruction:
    return next(i for i in module.entry.instructions if i.opcode is Opcode.DOT)


def dot(left: Any, right: Any, *numbers: Any, **options: Any) -> Any:
    """Return a dot of (contracted, batch) dimensions of both sides."""
    return jax.lax.dot_general(left, right, numbers, **options)


ALGORITHMS = xla_data_pb2.PrecisionConfig

X, Y = numbers("float32", 6, 5), numbers("float32", 5, 7)
BATCH = numbers("float32", 2, 3, 6, 5)

FORMS = {
    "both dense": (lambda x, y: x @ y, X, Y),
    "left transposed": (lambda x, y: x.T @ y, X.T.copy(), Y),
    "right transposed": (lambda x, y: x @ y.T, X, Y.T.copy()),
    "both transposed": (lambda x, y: x.T @ y.T, X.T.copy(), Y.T.copy()),
    "batches": (
        lambda q, k: dot(q, k, ((3,), (3,)), ((0, 1), (0, 1))),
        BATCH,
        numbers("float32", 2, 3, 4, 5),
    ),
    "two sums": (
        lambda x, y: dot(x, y, ((1, 2), (0, 1)), ((), ())),
        BATCH[0],
        numbers("float32", 6, 5, 7),
    ),
    "two sums in another order": (
        lambda x, y: dot(x, y, ((2, 1), (1, 0)), ((), ())),
        BATCH[0],
        numbers("float32", 6, 5, 7),
    ),
    "several rows": (lambda x, y: dot(x, y, ((3,), (0,)), ((), ())), BATCH, Y),
    "sizes of one": (
        lambda x, y: dot(x, y, ((3,), (1,)), ((1,), (0,))),
        BATCH[:, :1].copy(),
        numbers("float32", 1, 5, 7),
    ),
    "a batch inside": (
        lambda x, y: dot(x, y, ((2,), (2,)), ((1,), (1,))),
        numbers("float32", 6, 3, 5),
        numbers("float32", 4, 3, 5),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_dimensions_are_reported_and_not_moved(name: str) -> None:
    function, *arguments = FORMS[name]
    module = module_of(function, *arguments)
    dots = [i for i in module.entry.instructions if i.opcode is Opcode.DOT]
    assert len(dots) == 1
    plan = plan_of(dots[0])
    assert plan is not None
    assert plan.problem is None
    code = lowered(module)
    assert plan in plans(code)
    ours, expected = results_of(code, arguments), interpreted(module, arguments)
    assert_near([array.reshape(-1) for array in ours], [array.reshape(-1) for array in expected])


def test_a_transpose_in_front_of_a_product_moves_nothing() -> None:
    module = module_of(lambda x, y: x @ y.T, X, Y.T.copy())
    code = compiled(module)
    assert grids(code) == []
    right = Matrix(E.F32, 5, 0, is_transposed=True)
    left, result = Matrix(E.F32, 5), Matrix(E.F32, 7, 42)
    assert plans(code) == [GemmPlan(1, 6, 7, 5, left, right, result, rounds_operands=True)]


LOOPS = {
    "two batches with others between": (
        lambda x, y: dot(x, y, ((3,), (3,)), ((0, 2), (0, 2))),
        BATCH,
        BATCH,
    ),
    "columns that are not dense": (
        lambda x, y: dot(x, y, ((1,), (0,)), ((), ())),
        BATCH[0],
        numbers("float32", 6, 7),
    ),
    "a vector": (lambda x, y: dot(x, y, ((1,), (0,)), ((), ())), X, Y[:, 0].copy()),
    "a row": (lambda x, y: dot(x, y, ((1,), (0,)), ((), ())), X[:1].copy(), Y),
    "one product": (lambda x, y: dot(x, y, ((1,), (0,)), ((), ())), X[:, :1].copy(), Y[:1].copy()),
    "integers": (
        lambda x, y: dot(x, y, ((1,), (0,)), ((), ())),
        numbers("int32", 6, 5),
        numbers("int32", 5, 7),
    ),
    "narrow integers along columns": (
        lambda x, y: dot(x, y, ((1,), (0,)), ((), ()), preferred_element_type="int32"),
        numbers("int8", 8, 8),
        numbers("int8", 8, 8),
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_a_library_does_not_have_is_a_loop_nest(name: str) -> None:
    function, *arguments = LOOPS[name]
    module = module_of(function, *arguments)
    code = lowered(module)
    assert plans(code) == []
    assert len(grids(code)) == 1
    assert_near(results_of(code, arguments), interpreted(module, arguments))


def test_no_elements_are_no_product() -> None:
    module = module_of(lambda x, y: x @ y, X[:, :0].copy(), Y[:0].copy())
    assert plan_of(dot_of(module)) is None


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        ("float64", "float64"),
        ("complex64", "complex64"),
        ("complex128", "complex128"),
        ("float16", "float16"),
        ("float16", "float32"),
        ("bfloat16", "bfloat16"),
        ("bfloat16", "float32"),
        ("int8", "int32"),
    ],
)
def test_types_that_libraries_have_stay_as_they_are(dtype: str, result: str) -> None:
    with jax.enable_x64(True):
        x = numbers(dtype, 8, 32)
        module = module_of(
            lambda x: dot(x, x, ((1,), (1,)), ((), ()), preferred_element_type=result), x
        )
    code = compiled(module)
    (plan,) = plans(code)
    assert isinstance(plan, GemmPlan)
    assert plan.left.element is E.from_dtype(x.dtype)
    assert grids(code) == []
    assert_near(results_of(code, [x]), interpreted(module, [x]))


@pytest.mark.parametrize(
    ("precision", "algorithm", "dtype", "rounds"),
    [
        ((), 0, "float32", True),
        ((1, 1), 0, "float32", True),
        ((2, 2), 0, "float32", False),
        ((0, 2), 0, "float32", False),
        ((2, 2), ALGORITHMS.ALG_DOT_TF32_TF32_F32, "float32", True),
        ((), ALGORITHMS.ALG_DOT_F32_F32_F32, "float32", False),
        ((), 0, "complex64", True),
        ((), 0, "bfloat16", False),
    ],
)
def test_operands_are_rounded_only_where_the_program_lets_them(
    precision: tuple[int, ...], algorithm: int, dtype: str, rounds: bool
) -> None:
    i = dot_of(module_of(lambda x, y: x @ y, numbers(dtype, 6, 5), numbers(dtype, 5, 7)))
    i.attributes = dataclasses.replace(i.attributes, precision=precision, algorithm=algorithm)
    plan = plan_of(i)
    assert plan is not None
    assert plan.rounds_operands is rounds

"""Plans of libraries: what libraries have, and what the records say of it."""

import dataclasses
import math
from typing import Any

import pytest

from tests.cuda.checks.library_checks import plans, product
from xla_contract.types.element_type import ElementType as E
from xla_server.codegen.gpu.plans.library_plans import (
    MAX_BATCH,
    MAX_COMPLEX_ROWS,
    MAX_WORKSPACE_BYTES,
    CholeskyPlan,
    FftPlan,
    GemmPlan,
    LibraryPlan,
    TriangularSolvePlan,
)
from xla_server.codegen.gpu.plans.solver_plans import (
    MAX_CALLS,
    SMALL,
    EigenPlan,
    LuPlan,
    QrPlan,
    ReflectorsPlan,
    SingularPlan,
    SolverPlan,
)
from xla_server.target.gpu.epilogue import Activation, Epilogue

PRODUCT = product(E.F32, E.F32, (1, 33, 17, 65), (False, True))
INTEGERS = product(E.S8, E.S32, (1, 16, 8, 32), (False, True))
WIDE = product(E.F64, E.F64, (1, 4, 4, 4), (False, False))
BATCH = product(E.F32, E.F32, (2, 4, 4, 4), (False, False))
SYSTEMS = TriangularSolvePlan(E.F32, 2, 4, 3, True, True, False, "N")
FACTORS = CholeskyPlan(E.F32, 2, 4, is_lower=True)
LINES = FftPlan(E.C64, 2, (8,), is_inverse=False)


def changed(plan: GemmPlan, side: str, **fields: Any) -> GemmPlan:
    """Return a product one of whose operands is changed."""
    matrix = dataclasses.replace(getattr(plan, side), **fields)
    return dataclasses.replace(plan, **{side: matrix})


def with_epilogue(plan: GemmPlan, **fields: Any) -> GemmPlan:
    """Return a product that goes on."""
    return dataclasses.replace(plan, epilogue=Epilogue(**fields))


def test_every_kind_of_plan_is_computed() -> None:
    for plan in plans():
        assert plan.problem is None, plan


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (dataclasses.replace(PRODUCT, rows=0), "sizes must be 1 to"),
        (dataclasses.replace(PRODUCT, depth=1 << 31), "sizes must be 1 to"),
        (dataclasses.replace(PRODUCT, batch=MAX_BATCH + 1), "1 to 65535 matrices, got 65536"),
        (changed(PRODUCT, "left", element=E.BF16), r"of these types: \['bf16', 'f32', 'f32'\]"),
        (changed(PRODUCT, "result", element=E.F64), "no product of these types"),
        (product(E.S32, E.S32, (1, 16, 8, 32), (False, True)), "no product of these types"),
        (
            product(E.C64, E.C64, (1, MAX_COMPLEX_ROWS + 1, 8, 8), (False, False)),
            "at most 4194240 rows",
        ),
        (with_epilogue(PRODUCT, scale=0.0), r"must have finite factors.*, got \(0 \* product\)"),
        (with_epilogue(PRODUCT, scale=math.nan), "must have finite factors"),
        (with_epilogue(PRODUCT, weight=math.inf), r"got \(1 \* product \+ inf \* addend\)"),
        (with_epilogue(INTEGERS, scale=2.0), r"\['bf16', 'f16', 'f32', 'f64'\], got s32"),
        (with_epilogue(WIDE, has_bias=True), r"\['bf16', 'f16', 'f32'\], got f64"),
        (with_epilogue(WIDE, activation=Activation.RELU), "must be one of .*, got f64"),
        (with_epilogue(WIDE, scale=-0.5, weight=1.0), None),
        (with_epilogue(BATCH, has_bias=True), "must have one matrix, got 2"),
        (with_epilogue(BATCH, activation=Activation.GELU), None),
        (
            dataclasses.replace(INTEGERS, rounds_operands=True),
            "operands to round must be f32 or c64, got s8",
        ),
        (changed(PRODUCT, "left", ahead=64), "at least 65 elements apart, got 64"),
        (changed(PRODUCT, "right", ahead=64), "at least 65 elements apart, got 64"),
        (changed(PRODUCT, "result", ahead=16), "at least 17 elements apart, got 16"),
        (changed(PRODUCT, "result", is_transposed=True), "columns of a result must lie apart"),
        (changed(INTEGERS, "left", is_transposed=True), "must read both operands along the sums"),
        (changed(INTEGERS, "right", is_transposed=False), "must read both operands along"),
        (changed(INTEGERS, "left", ahead=33), "must be multiples of 4"),
        (
            product(E.S8, E.S32, (1, 16, 6, 32), (False, True)),
            r"must be multiples of 4, got \(6, 32, 32, 32, 6\)",
        ),
        (dataclasses.replace(SYSTEMS, element=E.BF16), "must be f32, f64, c64 or c128, got bf16"),
        (dataclasses.replace(SYSTEMS, columns=1 << 31), "sizes must be 1 to"),
        (dataclasses.replace(FACTORS, element=E.F16), "must be f32, f64, c64 or c128, got f16"),
        (dataclasses.replace(FACTORS, order=1 << 16), "there must be 1 to 2147483647 numbers"),
        (dataclasses.replace(LINES, element=E.F32), "must be c64 or c128, got f32"),
        (dataclasses.replace(LINES, sizes=(2, 2, 2, 2)), "must have 1 to 3 dimensions, got 4"),
        (dataclasses.replace(LINES, sizes=(1 << 30,)), "there must be 1 to 2147483647 numbers"),
        (
            dataclasses.replace(LINES, sizes=(2, 2), is_inverse=True, is_real=True),
            "an inverse real transform must have one dimension",
        ),
        (
            dataclasses.replace(LINES, is_real=True, inner=2),
            "a real transform must be over the last dimensions, got 2 inside",
        ),
        (LINES, None),
    ],
)
def test_what_no_library_has_is_said(plan: LibraryPlan, problem: str | None) -> None:
    if problem is None:
        assert plan.problem is None
    else:
        with pytest.raises(ValueError, match=problem):
            raise ValueError(plan.problem or "")


def test_plans_have_keys_of_their_own_and_say_what_they_do() -> None:
    found = list(plans())
    assert len({plan.key for plan in found}) == len(set(found))
    assert [plan.text for plan in (PRODUCT, SYSTEMS, FACTORS, LINES)] == [
        "product 1 x [33, 65] x [65, 17]: f32 by 65, 0 x f32^T by 65, 0 -> f32 by 17, 561",
        "systems lower a x = b of f32, 2 x [4, 3]",
        "lower factors of f32, 2 x [4, 4]",
        "Fourier transforms of c64, 2 x [8]",
    ]
    last = with_epilogue(BATCH, scale=-0.1, weight=1.0, activation=Activation.GELU)
    assert last.text.endswith("-> f32 by 4, 16, gelu(-0.1 * product + 1 * addend)")
    inverse = FftPlan(E.C128, 2, (8,), is_inverse=True, inner=3)
    assert inverse.text == "inverse Fourier transforms of c128, 2 x [8] x 3"
    right = TriangularSolvePlan(E.C64, 1, 4, 3, False, False, True, "C")
    assert right.text == "systems x upper a^C = b of c64, 1 x [4, 3], a diagonal of ones"


@pytest.mark.parametrize(
    ("plan", "is_batched"),
    [
        (LuPlan(E.F32, 2, 256, 256), True),
        (LuPlan(E.F32, 2, 257, 257), False),
        (LuPlan(E.F32, 2, 6, 5), False),
        (LuPlan(E.F32, 1, 6, 6), False),
        (QrPlan(E.F32, 2, 256, 5), True),
        (QrPlan(E.F32, 2, 5, 257), False),
        (EigenPlan(E.F32, 2, SMALL, is_lower=True, has_vectors=True), True),
        (EigenPlan(E.F32, 2, SMALL + 1, is_lower=True, has_vectors=True), False),
        (SingularPlan(E.F32, 2, SMALL, 5, SMALL), True),
        (SingularPlan(E.F32, 2, SMALL, 5, 0), True),
        (SingularPlan(E.F32, 2, SMALL, 5, 5), False),
        (SingularPlan(E.F32, 2, SMALL + 1, 5, 0), False),
    ],
)
def test_batches_of_matrices_that_a_library_takes_at_once(
    plan: SolverPlan, is_batched: bool
) -> None:
    assert plan.problem is None
    assert plan.is_batched == is_batched


def test_small_matrices_have_a_bounded_number_of_calls() -> None:
    small = ReflectorsPlan(E.F32, MAX_CALLS + 1, SMALL, SMALL, 5)
    assert small.problem == "a batch must have 1 to 64 small matrices, got 65"
    assert dataclasses.replace(small, rows=SMALL + 1).problem is None
    assert dataclasses.replace(small, batch=MAX_CALLS).problem is None
    many = LuPlan(E.F32, 1 << 20, SMALL, SMALL)
    assert "1048576 matrices must have 1 to 1073741823 elements" in str(many.problem)


def test_operations_are_those_of_the_usual_algorithms() -> None:
    assert PRODUCT.operations == 2 * 33 * 17 * 65
    assert SYSTEMS.operations == 2 * 4 * 4 * 3
    assert FACTORS.operations == 2 * 64 // 3
    assert LINES.operations == 5 * 2 * 8 * 3
    real = FftPlan(E.C64, 2, (8,), is_inverse=False, is_real=True)
    assert real.operations == LINES.operations // 2
    # Those that JAX's calls of LAPACK become: a square, and what is as tall as it is wide.
    assert LuPlan(E.F32, 2, 6, 6).operations == 2 * (2 * 6**3 // 3)
    assert QrPlan(E.F32, 1, 6, 6).operations == 4 * 6**3 // 3
    assert EigenPlan(E.F64, 1, 6, is_lower=True, has_vectors=False).operations == 4 * 6**3 // 3
    assert SingularPlan(E.F32, 1, 6, 6, 0).operations == 8 * 6**3 // 3
    # A third of one is none.
    assert all(plan.operations >= 0 for plan in plans())


def test_workspaces_follow_from_sizes_and_are_bounded() -> None:
    assert PRODUCT.workspace_bytes == 32 * 33 * 17 * 4
    large = product(E.F32, E.F32, (1, 4096, 4096, 64), (False, False))
    assert large.workspace_bytes == MAX_WORKSPACE_BYTES

"""Plans of the golden programs and of a model: libraries have them, and their buffers suffice."""

import math

import pytest

from tests.benchmarks.workloads.models import workloads
from tests.cuda_twin.lowered import compiled
from tests.kernels.corpora import CORPORA, lowered_by_jax
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.gpu.plans.library_plans import (
    CholeskyPlan,
    FftPlan,
    GemmPlan,
    LibraryPlan,
    Matrix,
    TriangularSolvePlan,
)
from xla_server.codegen.gpu.plans.solver_plans import SolverPlan
from xla_server.ir.module import HloModule

ADDRESS_BYTES = 8
STATUS_BYTES = 4

MODEL = workloads()["MLP train step"]

PROGRAMS = [pytest.param(module, id=name) for name, module in CORPORA["golden"]()]
PROGRAMS.append(pytest.param(lowered_by_jax(MODEL.function, MODEL.arguments), id="model"))


def buffer_bytes(plan: LibraryPlan) -> list[int]:
    """Return the bytes of a plan's buffers, from the first element to the last."""
    match plan:
        case GemmPlan():
            operands = (
                (plan.left, plan.rows, plan.depth),
                (plan.right, plan.depth, plan.columns),
                (plan.result, plan.rows, plan.columns),
            )
            left, right, result = (_extent(plan.batch, *operand) for operand in operands)
            addend = [result] if plan.epilogue.weight else []
            bias = [plan.columns * plan.result.element.byte_width] * plan.epilogue.has_bias
            return [left, right, *addend, *bias, result, plan.memory_bytes]
        case TriangularSolvePlan():
            tables = [2 * plan.batch * ADDRESS_BYTES] if plan.batch > 1 else []
            elements = plan.order**2, plan.rows * plan.columns
            width = plan.batch * plan.element.byte_width
            return [*(width * count for count in elements), *tables]
        case CholeskyPlan():
            tables = [plan.batch * ADDRESS_BYTES] if plan.batch > 1 else []
            matrices = plan.batch * plan.order**2 * plan.element.byte_width
            return [matrices, plan.batch * STATUS_BYTES, *tables]
        case FftPlan():
            real = plan.element.real_component if plan.is_real else plan.element
            sides = [(plan.sizes, real), (plan.complex_sizes, plan.element)]
            lines = plan.batch * plan.inner
            found = [lines * math.prod(sizes) * kind.byte_width for sizes, kind in sides]
            return found[::-1] if plan.is_inverse else found
        case SolverPlan():
            return [plan.batch * count * element.byte_width for element, count in plan.parts]
    raise AssertionError(plan)


def _extent(batch: int, matrix: Matrix, rows: int, columns: int) -> int:
    rows, columns = (columns, rows) if matrix.is_transposed else (rows, columns)
    last = (batch - 1) * matrix.apart + (rows - 1) * matrix.ahead + columns
    return last * matrix.element.byte_width


def test_the_programs_have_plans() -> None:
    kinds = {type(plan) for module in PROGRAMS for _, plan in _plans(module.values[0])}
    assert {GemmPlan, FftPlan} <= kinds


@pytest.mark.parametrize("module", PROGRAMS)
def test_plans_are_computed_by_libraries_and_fill_their_buffers(module: HloModule) -> None:
    for row, plan in _plans(module):
        assert plan.problem is None
        assert buffer_bytes(plan) == [value.byte_size for value in row.arguments]


def _plans(module: HloModule) -> list[tuple[KernelThunk, LibraryPlan]]:
    thunks = [thunk for thunk in compiled(module).thunks if isinstance(thunk, KernelThunk)]
    return [(thunk, thunk.kernel) for thunk in thunks if isinstance(thunk.kernel, LibraryPlan)]

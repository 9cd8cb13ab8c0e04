"""LAPACK's calls for a GPU: plans of libraries, the kernels around them, and results."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance.sweep.draws.depth import FULL
from tests.corpus.jax.programs import lower
from tests.cuda.checks.outcomes import assert_near
from tests.cuda_twin import lowered
from tests.cuda_twin.rows import plans, results_of
from tests.unit.codegen.compiled import interpreted
from tests.unit.codegen.gpu.lower.linear_algebra.test_triangular import TYPES, numbers, positive
from xla_contract.errors import ShapeError
from xla_contract.stubs import hlo_pb2
from xla_server.codegen.gpu.plans.library_plans import (
    CholeskyPlan,
    LibraryPlan,
    TriangularSolvePlan,
)
from xla_server.codegen.gpu.plans.solver_plans import (
    MAX_CALLS,
    EigenPlan,
    LuPlan,
    QrPlan,
    ReflectedPlan,
    ReflectorsPlan,
    SingularPlan,
    SolverPlan,
)
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module

lal = jax.lax.linalg


def _eigh(x: Any) -> Any:
    vectors, values = lal.eigh(x, symmetrize_input=False)
    return vectors, values


def _svd(x: Any, **options: Any) -> Any:
    u, values, vt = lal.svd(x, **options)
    return values, (u[..., :, : values.shape[-1]] * values[..., None, :]) @ vt[
        ..., : values.shape[-1], :
    ]


SQUARE, TALL, WIDE = (4, 4), (6, 4), (4, 6)

CALLS: dict[str, tuple[Callable[..., Any], Sequence[Sequence[int]], type[LibraryPlan]]] = {
    "cholesky": (lambda x: lal.cholesky(x, symmetrize_input=False), [SQUARE], CholeskyPlan),
    "solve": (
        lambda a, b: lal.triangular_solve(a, b, left_side=True),
        [SQUARE, SQUARE],
        TriangularSolvePlan,
    ),
    "lu": (lal.lu, [SQUARE], LuPlan),
    "lu of tall": (lal.lu, [TALL], LuPlan),
    "lu of wide": (lal.lu, [WIDE], LuPlan),
    "qr": (lal.qr, [TALL], QrPlan),
    "qr of wide": (lal.qr, [WIDE], QrPlan),
    "reflectors": (lal.householder_product, [TALL, (3,)], ReflectorsPlan),
    "reflected": (
        lambda *x: lal.ormqr(*x, left=False, transpose=True),
        [TALL, (4,), (3, 6)],
        ReflectedPlan,
    ),
    "eigen": (_eigh, [SQUARE], EigenPlan),
    "singular": (_svd, [TALL], SingularPlan),
    "singular of wide": (_svd, [WIDE], SingularPlan),
    "singular, reduced": (lambda x: _svd(x, full_matrices=False), [TALL], SingularPlan),
    "singular of wide, reduced": (lambda x: _svd(x, full_matrices=False), [WIDE], SingularPlan),
    "singular values": (lambda x: lal.svd(x, compute_uv=False), [TALL], SingularPlan),
}
"""Functions, the sizes of their operands, and the plan that they come to."""


def stated(function: Callable[..., Any], *arguments: Any) -> HloModule:
    return import_module(hlo_pb2.HloModuleProto.FromString(lower(function, *arguments)))


def drawn(name: str, dtype: str, batch: Sequence[int]) -> list[Any]:
    _, sizes, _ = CALLS[name]
    if name in ("cholesky", "eigen"):
        return [positive(dtype, *batch, *sizes[0])]
    return [numbers(dtype, *batch, *each) for each in sizes]


CASES = [
    (name, dtype, batch)
    for batch, turn in (((), 0), ((2, 3), 1))
    for number, name in enumerate(CALLS)
    for dtype in (TYPES if FULL else TYPES[(number + turn) % 2 :: 2])
]
"""Calls, types and batches. In the slice a call has two types alone and the others in a batch."""


@pytest.mark.parametrize(("name", "dtype", "batch"), CASES)
def test_calls_are_plans_with_the_results_of_the_interpreter(
    name: str, dtype: str, batch: Sequence[int]
) -> None:
    function, _, plan = CALLS[name]
    with jax.enable_x64(True):
        given = drawn(name, dtype, batch)
        module = stated(function, *given)
    code = lowered.compiled(module)
    assert lowered.through_host(code) == []
    assert plan in {type(each) for each in plans(code)}
    assert_near(results_of(code, given), interpreted(module, given))


def test_a_status_is_the_row_where_there_is_no_pivot() -> None:
    a = np.stack([np.diag(d).astype(np.float32) for d in ([1, 2, -3, 4], [1, np.nan, 1, 1])])
    module = parse_module("""HloModule m
ENTRY e { a = f32[2,4,4] parameter(0)
  ROOT c = (f32[2,4,4], s32[2]) custom-call(a), api_version=API_VERSION_TYPED_FFI,
    custom_call_target="lapack_spotrf_ffi", backend_config="{uplo = 76 : ui8}" }
""")
    _, status = results_of(lowered.lowered(module), [a])
    assert list(status) == [3, 2]


@pytest.mark.parametrize("triangle", [76, 85])
def test_imaginary_parts_of_diagonals_are_not_read(triangle: int) -> None:
    a = positive("complex64", 3, 3)
    factor, eigen = (
        parse_module(f"""HloModule m
ENTRY e {{ a = c64[3,3] parameter(0)
  ROOT c = {results} custom-call(a), api_version=API_VERSION_TYPED_FFI,
    custom_call_target="lapack_{name}_ffi", backend_config="{{{more}uplo = {triangle} : ui8}}" }}
""")
        for name, results, more in (
            ("cpotrf", "(c64[3,3], s32[])", ""),
            ("cheevd", "(c64[3,3], f32[3], s32[])", "mode = 86 : ui8, "),
        )
    )
    bent = a + 5j * np.eye(3, dtype=np.complex64)
    for module in (factor, eigen):
        code = lowered.lowered(module)
        assert_near(results_of(code, [bent]), results_of(code, [a]))


@pytest.mark.parametrize(
    "name", ["lu", "qr of wide", *(name for name in CALLS if "eigen" in name or "singular" in name)]
)
def test_a_large_batch_of_small_matrices_is_one_call(name: str) -> None:
    function, _, plan = CALLS[name]
    given = drawn(name, "complex64", (MAX_CALLS + 1,))
    module = stated(function, *given)
    code = lowered.compiled(module)
    found = [each for each in plans(code) if isinstance(each, plan)]
    assert [each.is_batched for each in found if isinstance(each, SolverPlan)] == [True]
    if name != "qr of wide":  # Its reflectors are multiplied by calls for each matrix.
        assert lowered.through_host(code) == []
        assert_near(results_of(code, given), interpreted(module, given))


def test_large_batches_empty_arrays_and_other_names_go_through_the_host() -> None:
    many = np.broadcast_to(np.eye(2, dtype=np.float32), (MAX_CALLS + 1, 2, 2))
    factors = np.zeros((MAX_CALLS + 1, 2), np.float32)
    empty = parse_module("""HloModule m
ENTRY e { a = f32[0,3] parameter(0)
  ROOT c = (f32[0,3], s32[0], s32[]) custom-call(a), api_version=API_VERSION_TYPED_FFI,
    custom_call_target="lapack_sgetrf_ffi" }
""")
    for module in (
        stated(lal.householder_product, many, factors),
        stated(jnp.linalg.eigvals, many[0]),
        empty,
    ):
        code = lowered.lowered(module)
        assert plans(code) == []
        assert lowered.through_host(code) != []


def test_a_call_of_other_shapes_is_refused() -> None:
    module = parse_module("""HloModule m
ENTRY e { a = f32[4,3] parameter(0)
  ROOT c = (f32[4,3], s32[]) custom-call(a), api_version=API_VERSION_TYPED_FFI,
    custom_call_target="lapack_spotrf_ffi", backend_config="{uplo = 76 : ui8}" }
""")
    with pytest.raises(ShapeError, match="the matrices must be square"):
        lowered.lowered(module)

"""LAPACK's calls for factors: one call for each matrix, or blocks where matrices are large."""

import pytest

from tests.unit.codegen.lower.lowered import kernels, lowered, sizes
from xla_contract.types.element_type import ElementType
from xla_server.buffers.code import CANCELLATION, KernelThunk
from xla_server.codegen.lower.linear_algebra.factorizations import PORTABLE, calls

TYPED = "api_version=API_VERSION_TYPED_FFI"
LARGE = 3000


def _factors(target: str, results: str, *operands: str, options: str = "") -> list[KernelThunk]:
    parameters = ", ".join(f"x{n}" for n in range(len(operands)))
    config = f', backend_config="{options}"' if options else ""
    root = f'{results} custom-call({parameters}), custom_call_target="{target}", {TYPED}{config}'
    return [thunk for thunk in lowered(operands, root).thunks if isinstance(thunk, KernelThunk)]


def test_names_are_those_of_the_type() -> None:
    assert {"orgqr", "ormqr"} < calls(ElementType.F64).keys()
    assert {"ungqr", "unmqr"} < calls(ElementType.C64).keys()
    assert {"potrf", "getrf", "geqrf", "geqp3"} < calls(ElementType.C64).keys()
    assert {"LuDecomposition", "Qr"} < PORTABLE.keys()


@pytest.mark.parametrize(
    ("n", "routine", "is_stopped"), [(8, "sgetrf", False), (LARGE, "lu_f32", True)]
)
def test_large_matrices_are_factored_by_blocks_that_can_be_stopped(
    n: int, routine: str, is_stopped: bool
) -> None:
    results = f"(f32[{n},{n}], s32[{n}], s32[])"
    (row,) = _factors("lapack_sgetrf_ffi", results, f"f32[{n},{n}]")
    assert f"{routine}(" in row.source
    assert (CANCELLATION in row.arguments) is is_stopped


@pytest.mark.parametrize(("n", "routine"), [(8, "sgeqrf"), (LARGE, "qr_f32")])
def test_memory_to_work_in_is_what_the_routine_asks_for(n: int, routine: str) -> None:
    (row,) = _factors("lapack_sgeqrf_ffi", f"(f32[{n},{n}], f32[{n}])", f"f32[{n},{n}]")
    assert f"{routine}(" in row.source
    workspaces = [size for name, size in sizes(row).items() if name.endswith("workspace")]
    assert (1, n * n) in [value.shape.dimensions for value in row.writes]
    assert workspaces


def test_a_factor_is_within_a_copy_of_the_operand() -> None:
    (row,) = _factors(
        "lapack_spotrf_ffi",
        "(f32[3,8,8], s32[3])",
        "f32[3,8,8]",
        options="{uplo = 76 : ui8}",
    )
    assert [value.shape.dimensions for value in row.updates] == [(3, 8, 8)]
    # Columns first: the other triangle.
    assert f"alloca_i32({ord('U')})" in row.source


def test_a_decomposition_gives_the_order_of_the_rows_too() -> None:
    (row,) = kernels(
        ["f32[2,5,4]"],
        "(f32[2,5,4], s32[2,4], s32[2,5]) custom-call(x0), "
        f'custom_call_target="LuDecomposition", {TYPED}',
    )
    assert {(2, 4), (2, 5)} < {value.shape.dimensions for value in row.writes}

"""LAPACK's calls for systems: with triangles, and with three diagonals."""

from tests.unit.codegen.lower.lowered import lowered
from xla_contract.types.element_type import ElementType
from xla_server.buffers.code import CopyThunk, KernelThunk
from xla_server.codegen.lower.linear_algebra.triangular import PORTABLE, calls

TYPED = "api_version=API_VERSION_TYPED_FFI"


def _solved(target: str, result: str, *operands: str, options: str = "") -> list[object]:
    parameters = ", ".join(f"x{n}" for n in range(len(operands)))
    config = f', backend_config="{options}"' if options else ""
    root = f'{result} custom-call({parameters}), custom_call_target="{target}", {TYPED}{config}'
    return list(lowered(operands, root).thunks)


def test_diagonals_have_no_columns() -> None:
    assert (
        calls(ElementType.F32)["gtsv"].rank == PORTABLE["tridiagonal_solve_perturbed_ffi"].rank == 1
    )
    assert calls(ElementType.F32)["trsm"].rank == 2


def test_a_triangle_is_read_from_the_other_side_by_columns() -> None:
    options = "{side = 76 : ui8, uplo = 76 : ui8, trans_x = 84 : ui8, diag = 78 : ui8}"
    shapes = "f32[2,4,4]", "f32[2,4,3]"
    copy, thunk = _solved("lapack_strsm_ffi", shapes[1], *shapes, options=options)
    assert isinstance(copy, CopyThunk)
    assert isinstance(thunk, KernelThunk)
    assert thunk.updates == (copy.target,)
    assert "strsm(" in thunk.source
    letters = [f"alloca_i32({ord(letter)})" for letter in "RUTN"]
    places = [thunk.source.index(letter) for letter in letters]
    assert places == sorted(places)


def test_diagonals_are_overwritten_in_copies() -> None:
    line, right = "f32[2,5]", "f32[2,5,3]"
    results = f"({line}, {line}, {line}, {right}, s32[2])"
    *copies, thunk = _solved("lapack_sgtsv_ffi", results, line, line, line, right)
    assert isinstance(thunk, KernelThunk)
    assert [isinstance(copy, CopyThunk) for copy in copies] == [True] * 3
    assert [value.shape.dimensions for value in thunk.updates] == [(2, 5)] * 3
    # The right sides are transposed to columns and back.
    assert (2, 15) in [value.shape.dimensions for value in thunk.writes]


def test_perturbed_systems_keep_their_diagonals() -> None:
    line, right = "f32[2,5]", "f32[2,5,3]"
    copy, thunk = _solved("tridiagonal_solve_perturbed_ffi", right, line, line, line, right)
    assert isinstance(copy, CopyThunk)
    assert isinstance(thunk, KernelThunk)
    assert len(thunk.reads) == 3
    assert (thunk.updates, copy.target.shape.dimensions) == ((copy.target,), (2, 5, 3))
    assert (2, 3 * 5) in [value.shape.dimensions for value in thunk.writes]

"""LAPACK's calls for eigenvalues and singular values: modes, and memory to work in."""

import pytest

from tests.unit.codegen.lower.lowered import lowered
from xla_contract.types.element_type import ElementType
from xla_server.buffers.code import CopyThunk, KernelThunk
from xla_server.codegen.lower.linear_algebra.spectral import calls

TYPED = "api_version=API_VERSION_TYPED_FFI"


def _rows(target: str, results: str, options: str, operand: str) -> tuple[KernelThunk, int]:
    """Lower a call to its kernel and some copies."""
    config = f'backend_config="{options}"'
    root = f'{results} custom-call(x0), custom_call_target="{target}", {TYPED}, {config}'
    thunks = lowered([operand], root).thunks
    (kernel,) = (thunk for thunk in thunks if isinstance(thunk, KernelThunk))
    return kernel, sum(isinstance(thunk, CopyThunk) for thunk in thunks)


def test_names_are_those_of_the_type() -> None:
    assert {"heevd", "hetrd"} < calls(ElementType.C64).keys()
    assert {"syevd", "sytrd"} < calls(ElementType.F32).keys()


@pytest.mark.parametrize(("mode", "copies"), [("V", 0), ("N", 1)])
def test_unused_eigenvectors_are_the_operand(mode: str, copies: int) -> None:
    options = f"{{mode = {ord(mode)} : ui8, uplo = 76 : ui8}}"
    found = _rows("lapack_ssyevd_ffi", "(f32[4,4], f32[4], s32[])", options, "f32[4,4]")
    row, copied = found
    assert copied == copies
    assert "ssyevd(" in row.source


@pytest.mark.parametrize("mode", ["A", "S", "N"])
def test_singular_vectors_take_memory_where_they_are_wanted(mode: str) -> None:
    left, right = {"A": (7, 4), "S": (4, 4), "N": (7, 4)}[mode]
    results = f"(f32[7,4], f32[4], f32[7,{left}], f32[{right},4], s32[])"
    options = f"{{mode = {ord(mode)} : ui8}}"
    row, copied = _rows("lapack_sgesdd_ffi", results, options, "f32[7,4]")
    workspaces = [v.shape.dimensions[-1] for v in row.writes if v.name.endswith("workspace")]
    wanted = {7 * left, right * 4} if mode != "N" else {1}
    assert wanted < set(workspaces)
    assert copied == 1


def test_numbers_that_are_not_finite_do_not_reach_lapack() -> None:
    options = "{compute_left = 78 : ui8, compute_right = 86 : ui8}"
    results = "(f32[4], f32[4], c64[4,4], c64[4,4], s32[])"
    row, _ = _rows("lapack_sgeev_ffi", results, options, "f32[4,4]")
    test, call = row.source.index("is_finite"), row.source.index("sgeev(")
    assert test < call
    # The left vectors are not computed: one element stands for them.
    workspaces = [v.shape.dimensions[-1] for v in row.writes if v.name.endswith("workspace")]
    assert {1, 16} <= set(workspaces)


def test_a_real_schur_form_has_eigenvalues_in_two_parts() -> None:
    options = "{mode = 86 : ui8, sort = 78 : ui8}"
    results = "(f32[4,4], f32[4,4], f32[4], f32[4], s32[], s32[])"
    row, _ = _rows("lapack_sgees_ffi", results, options, "f32[4,4]")
    assert sum(value.shape.dimensions == (4,) for value in row.writes) == 2

"""LAPACK's custom calls by kernels, beside the evaluators that call it through Python."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.processors import TARGET
from tests.unit.codegen.compiled import built, interpreted, on_cpu
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.shape import Shape
from xla_server.buffers.code import HostThunk
from xla_server.codegen.lower.linear_algebra.lapack import LAPACK_CALLS
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.custom_calls.builtin_targets import BUILTIN
from xla_server.custom_calls.linear_algebra.lapack import PREFIX
from xla_server.custom_calls.targets import (
    allocate_buffer,
    approximate_topk,
    dynamic_sizes,
    partitioning_markers,
    random_state,
    sparse_product,
)

KINDS = list(PREFIX)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.text)
two_kinds = pytest.mark.parametrize("kind", [E.F32, E.C128], ids=lambda kind: kind.text)


def numbers(kind: E, *sizes: int, seed: int = 0) -> Any:
    generator = np.random.default_rng([seed, *sizes])
    array = generator.standard_normal(sizes)
    if kind.is_complex:
        array = array + 1j * generator.standard_normal(sizes)
    return array.astype(kind.dtype)


def row(target: str, results: str, operands: Sequence[Any], config: str = "") -> Any:
    return target, results, operands, config


def shape_of(kind: E, results: str) -> Shape:
    """Results are listed by their sizes: T of the type, R of the real one, C complex, S status."""
    real = kind.real_component if kind.is_complex else kind
    element = {"T": kind, "R": real, "C": kind if kind.is_complex else kind.complex_of, "S": E.S32}
    parts = [
        Shape.array(element[part[0]], [int(size) for size in part[1:].split(",") if size])
        for part in results.split()
    ]
    return parts[0] if len(parts) == 1 else Shape.tuple_of(parts)


def letters(**options: str) -> str:
    return (
        "{" + ", ".join(f"{name} = {ord(letter)} : ui8" for name, letter in options.items()) + "}"
    )


def calls(kind: E, b: int, m: int, n: int) -> list[Any]:
    """Every call in every mode for b matrices: m x n ones, with m >= n, and square ones."""
    square, tall = numbers(kind, b, n, n), numbers(kind, b, m, n)
    wide, right = numbers(kind, b, n, m), numbers(kind, b, n, 2)
    definite = square @ np.conj(np.swapaxes(square, -1, -2)) + n * np.eye(n, dtype=kind.dtype)
    triangle = np.asarray(square / (2 * n) + np.eye(n), kind.dtype)
    taus, diagonals = numbers(kind, b, n), [numbers(kind, b, n, seed=k) for k in range(3)]
    letter, is_complex = PREFIX[kind], kind.is_complex
    unitary, hermitian = ("un", "he") if is_complex else ("or", "sy")
    values = f"T{b},{n}" if is_complex else f"T{b},{n} T{b},{n}"
    s, nn, mn = f"S{b}", f"T{b},{n},{n}", f"T{b},{m},{n}"
    vectors = f"C{b},{n},{n}"
    found = []

    def add(name: str, *rest: Any) -> None:
        found.append(row(f"lapack_{letter}{name}_ffi", *rest))

    for triangle_name in "LU":
        add("potrf", f"{nn} {s}", [definite], letters(uplo=triangle_name))
        for mode in "VN":
            config = letters(mode=mode, uplo=triangle_name)
            add(f"{hermitian}evd", f"{nn} R{b},{n} {s}", [definite], config)
        results = f"{nn} R{b},{n} R{b},{max(n - 1, 0)} T{b},{max(n - 1, 0)} {s}"
        add(f"{hermitian}trd", results, [definite], letters(uplo=triangle_name))
    for options in ("LLNN", "RUCU", "LUTN"):
        side, uplo, trans, diagonal = options
        other = right if side == "L" else np.ascontiguousarray(np.swapaxes(right, 1, 2))
        config = letters(side=side, uplo=uplo, trans_x=trans, diag=diagonal)
        add("trsm", f"T{','.join(map(str, other.shape))}", [triangle, other], config)
    for matrix, rows, columns in ((tall, m, n), (wide, n, m)):
        packed, less = f"T{b},{rows},{columns}", min(rows, columns)
        add("getrf", f"{packed} S{b},{less} {s}", [matrix])
        add("geqrf", f"{packed} T{b},{less}", [matrix])
        pivots = np.zeros((b, columns), np.int32)
        pivots[:, -1:] = 1
        add("geqp3", f"{packed} S{b},{columns} T{b},{less}", [matrix, pivots])
        for name in ("gesdd", "gesvd"):
            for mode in "ASN":
                sizes = (less, less) if mode == "S" else (rows, columns)
                basis = f"T{b},{rows},{sizes[0]} T{b},{sizes[1]},{columns}"
                results = f"{packed} R{b},{less} {basis} {s}"
                add(name, results, [matrix], letters(mode=mode))
    add(f"{unitary}gqr", mn, [tall, taus])
    for left in (True, False):
        other = tall if left else wide
        for transpose in (True, False):
            config = f"{{left = {left}, transpose = {transpose}}}".lower()
            result = f"T{','.join(map(str, other.shape))}"
            add(f"{unitary}mqr", result, [tall, taus, other], config)
    add("gtsv", f"T{b},{n} " * 3 + f"T{b},{n},2 {s}", [*diagonals, right])
    for left_mode, right_mode in ("VV", "NV", "VN", "NN"):
        config = letters(compute_left=left_mode, compute_right=right_mode)
        add("geev", f"{values} {vectors} {vectors} {s}", [square], config)
    for mode in "VN":
        add("gees", f"{nn} {nn} {values} {s} {s}", [square], letters(mode=mode, sort="N"))
    config = f"{{low = 1 : i32, high = {n} : i32}}"
    add("gehrd", f"{nn} T{b},{max(n - 1, 0)} {s}", [square], config)
    found += [
        row("Qr", f"{mn} T{b},{n}", [tall]),
        row("ProductOfElementaryHouseholderReflectors", mn, [tall, taus]),
        row("LuDecomposition", f"{mn} S{b},{n} S{b},{m}", [tall]),
        row("Eigh", f"{nn} R{b},{n}", [definite], "1,1,100,1e-6"),
        row("Eigh", f"{nn} R{b},{n}", [definite], "0,1,100,1e-6"),
        row("tridiagonal_solve_perturbed_ffi", f"T{b},{n},2", [*diagonals, right]),
    ]
    return found


def compare(kind: E, rows: Sequence[Any], bound: float | None = None) -> None:
    """One program with all calls gives what evaluators give, and asks nothing of the host."""
    arrays = list({id(array): array for _, _, operands, _ in rows for array in operands}.values())
    numbers_of = {id(array): number for number, array in enumerate(arrays)}

    def program(*parameters: Op) -> Op:
        made = []
        for target, results, operands, config in rows:
            given = [parameters[numbers_of[id(array)]] for array in operands]
            made.append(call(target, shape_of(kind, results), given, config))
        return ops.tuple(made, parameters[0].builder)

    module = built(program, arrays)
    assert not [r for r in lower(module, LOWERINGS, TARGET).thunks if isinstance(r, HostThunk)]
    ours, expected = on_cpu(module, arrays), interpreted(module, arrays)
    bound = bound or 2e3 * np.finfo(kind.dtype).eps
    for (target, _, _, config), found, wanted in zip(rows, ours, expected, strict=True):
        pairs = zip(flat(found), flat(wanted), strict=True)
        for number, (one, other) in enumerate(pairs):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(
                one, other, rtol=bound, atol=bound, err_msg=f"{target} {config} {number}"
            )


def call(target: str, shape: Shape, operands: Sequence[Op], config: str) -> Op:
    return ops.custom_call(operands, target, shape, opaque=config.encode())


def flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


@every_kind
def test_every_call_gives_what_the_evaluator_gives(kind: E) -> None:
    rows = calls(kind, 2, 5, 3)
    covered = {target for target, *_ in rows}
    own = {name for name in LAPACK_CALLS if not name.startswith("lapack_")}
    own |= {name for name in LAPACK_CALLS if name.startswith(f"lapack_{PREFIX[kind]}")}
    assert covered == own
    # The modes of two types, and each call once for the others.
    every = kind in (E.F32, E.C128)
    compare(kind, rows if every else list({target: (target, *r) for target, *r in rows}.values()))


def test_what_is_no_lapack_is_known() -> None:
    rest = {target.name for target in BUILTIN} - set(LAPACK_CALLS)
    others = (allocate_buffer, approximate_topk, random_state, sparse_product)
    sizes = {target.name for target in dynamic_sizes.TARGETS}
    assert rest == {
        "TopK",
        *(each.TARGET.name for each in others),
        *sizes,
        *partitioning_markers.NAMES,
    }


def test_matrices_of_one_element() -> None:
    # The evaluator does not ask LAPACK for what is tridiagonal already.
    rows = {r[0]: r for r in calls(E.F32, 1, 1, 1) if "trd" not in r[0]}
    compare(E.F32, list(rows.values()))


def test_large_matrices() -> None:
    chosen = ("getrf", "geqrf", "gesdd", "potrf", "trsm", "syevd", "sytrd", "gehrd", "mqr")
    rows = {r[0]: r for r in calls(E.F64, 1, 90, 70) if any(name in r[0] for name in chosen)}
    compare(E.F64, list(rows.values()), 1e-9)


def test_a_batch_larger_than_what_runs_side_by_side() -> None:
    rows = [r for r in calls(E.F32, 75, 4, 3) if "getrf" in r[0] or "gesdd" in r[0]]
    compare(E.F32, rows)


@two_kinds
@pytest.mark.parametrize("sizes", [(0, 3, 2), (2, 0, 0), (2, 3, 0)])
def test_matrices_without_elements(kind: E, sizes: tuple[int, int, int]) -> None:
    compare(kind, calls(kind, *sizes))


@two_kinds
def test_what_is_not_finite_is_reported_as_by_the_evaluator(kind: E) -> None:
    names = ("evd", "geev", "gesdd", "gesvd", "potrf", "getrf", "geqrf", "Eigh")
    rows = [r for r in calls(kind, 2, 5, 3) if any(name in r[0] for name in names)]
    for _, _, operands, _ in rows:
        operands[0][1, 1, 1] = np.nan
    compare(kind, rows)


@two_kinds
def test_what_has_no_factor_is_reported_as_by_the_evaluator(kind: E) -> None:
    rows = [r for r in calls(kind, 2, 5, 3) if "potrf" in r[0] or "getrf" in r[0]]
    for _, _, operands, _ in rows:
        operands[0][1] = -np.ones_like(operands[0][1])
    compare(kind, rows)


@two_kinds
def test_perturbed_pivots(kind: E) -> None:
    size, target = 6, "tridiagonal_solve_perturbed_ffi"
    rows = []
    for seed in range(6):
        diagonals = [numbers(kind, 3, size, seed=3 * seed + k) for k in range(3)]
        diagonals[seed % 3][:, ::2] = 0
        diagonals[1][1] *= np.float32(1e-3)
        rows.append(row(target, f"T3,{size},2", [*diagonals, numbers(kind, 3, size, 2, seed=seed)]))
    zero = np.zeros((3, size), kind.dtype)
    rows.append(row(target, f"T3,{size},2", [zero, zero, zero, rows[0][2][3]]))
    compare(kind, rows)

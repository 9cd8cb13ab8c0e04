"""Products of a matrix with few vectors that are multiplied without packing the matrix."""

from typing import Any

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import stated
from xla_contract.types.opcode import Opcode
from xla_server.passes.canonicalize.dots.thin_dots import ThinDot, thin_dot

TUNING = TARGET.tuning.thin_dots


def _thin(left: str, right: str, result: str, numbers: str, kind: str = "f32") -> ThinDot | None:
    lhs, rhs, *batch = numbers
    root = f"{kind}[{result}] dot(x0, x1), lhs_contracting_dims={{{lhs}}}, "
    root += f"rhs_contracting_dims={{{rhs}}}"
    if batch:
        root += ", lhs_batch_dims={0}, rhs_batch_dims={0}"
    module = stated([f"{kind}[{left}]", f"{kind}[{right}]"], root)
    (dot,) = [i for i in module.entry.instructions if i.opcode is Opcode.DOT]
    return thin_dot(dot, TUNING)


@pytest.mark.parametrize(
    ("dot", "sizes", "is_right", "is_inner", "vectors_are_rows"),
    [
        (("3,1000", "700,1000", "3,700", "11"), (1, 700, 3, 1000), True, True, True),
        (("700,1000", "1000,3", "700,3", "10"), (1, 700, 3, 1000), False, True, False),
        (("5,2,100", "5,100,700", "5,2,700", "21b"), (5, 700, 2, 100), True, False, True),
    ],
    ids=["rows_of_the_right_matrix", "rows_of_the_left_matrix", "columns_of_a_batch"],
)
def test_vectors_and_the_matrix_are_found(
    dot: tuple[str, ...], sizes: Any, is_right: bool, is_inner: bool, vectors_are_rows: bool
) -> None:
    assert _thin(*dot) == ThinDot(
        *sizes, is_right=is_right, is_inner=is_inner, vectors_are_rows=vectors_are_rows
    )


@pytest.mark.parametrize(
    ("rows", "columns", "is_thin"), [(16, 4, True), (15, 4, False), (5, 7, False)]
)
def test_columns_are_transposed_for_many_rows(rows: int, columns: int, is_thin: bool) -> None:
    sizes = f"{rows},30000", f"30000,{columns}", f"{rows},{columns}"
    wanted = ThinDot(1, rows, columns, 30000, False, is_inner=True, vectors_are_rows=False)
    assert _thin(*sizes, "10") == (wanted if is_thin else None)


def test_a_vector_is_a_row_however_it_is_stored() -> None:
    thin = _thin("1000,1", "1000,700", "1,700", "00")
    assert thin is not None
    assert thin.vectors_are_rows


@pytest.mark.parametrize(
    ("few", "many", "result", "numbers"),
    [
        (
            f"{TUNING.max_inner_vectors + 1},1000",
            "7000,1000",
            f"{TUNING.max_inner_vectors + 1},7000",
            "11",
        ),
        (
            f"{TUNING.max_outer_vectors + 1},1000",
            "1000,7000",
            f"{TUNING.max_outer_vectors + 1},7000",
            "10",
        ),
        ("2,100", "100,100", "2,100", "11"),
        (f"{TUNING.few_vectors + 1},64", "9000,64", f"{TUNING.few_vectors + 1},9000", "11"),
        ("2,32", "9000,32", "2,9000", "11"),
        ("2,90000", "90000,32", "2,32", "10"),
        ("2,90000", "90000,128", "2,128", "10"),
        (
            f"1000,{TUNING.min_rows_per_vector}",
            f"{TUNING.min_rows_per_vector**2 - 1},1000",
            f"{TUNING.min_rows_per_vector},{TUNING.min_rows_per_vector**2 - 1}",
            "01",
        ),
    ],
    ids=[
        "many_vectors_and_rows",
        "many_vectors_and_columns",
        "a_small_matrix",
        "short_rows",
        "shorter_rows",
        "few_columns",
        "a_large_matrix_of_columns_that_threads_cannot_share",
        "vectors_not_worth_transposing",
    ],
)
def test_other_products_are_packed(few: str, many: str, result: str, numbers: str) -> None:
    assert _thin(few, many, result, numbers) is None


def test_columns_of_the_left_matrix_are_for_one_vector() -> None:
    assert _thin("1000,7000", "1000,1", "7000,1", "00") is not None
    assert _thin("1000,7000", "1000,2", "7000,2", "00") is None


def test_columns_of_a_large_matrix_are_shared_by_the_batch_or_by_pieces() -> None:
    assert _thin("8,2,9000", "8,9000,128", "8,2,128", "21b") is not None
    assert _thin("2,9000", "9000,512", "2,512", "10") is not None


@pytest.mark.parametrize(("kind", "is_thin"), [("f64", True), ("c64", False), ("s32", False)])
def test_types(kind: str, is_thin: bool) -> None:
    found = _thin("3,1000", "700,1000", "3,700", "11", kind)
    assert (found is not None) is is_thin

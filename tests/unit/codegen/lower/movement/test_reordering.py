"""Arrays with their dimensions in another order: copies, and what needs none."""

import pytest

from tests.unit.codegen.lower.lowered import AVX2
from xla_contract.types.shape import Shape
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.lower.lowering import Lowering
from xla_server.codegen.lower.movement.reordering import in_order, permuted


def _copies(shape: str, order: tuple[int, ...]) -> tuple[bool, list[KernelThunk]]:
    lowering, value = Lowering({}, AVX2), Value(Shape.parse(shape), "x")
    found = in_order(lowering, value, value.shape, order, "y")
    thunks = [thunk for thunk in lowering.thunks if isinstance(thunk, KernelThunk)]
    assert found is value or found.shape == permuted(value.shape, order)
    assert all((thunk.reads, thunk.writes) == ((value,), (found,)) for thunk in thunks)
    return found is value, thunks


@pytest.mark.parametrize(
    ("shape", "order"), [("f32[3,4]", (0, 1)), ("f32[3,1,4]", (1, 0, 2)), ("f32[1,4,1]", (2, 1, 0))]
)
def test_what_keeps_the_order_of_its_elements_is_not_copied(
    shape: str, order: tuple[int, ...]
) -> None:
    assert _copies(shape, order) == (True, [])


def test_permuted_elements_are_transposed_tile_by_tile() -> None:
    _, (row,) = _copies("f32[300,200]", (1, 0))
    assert "transpose" in row.source


def test_runs_that_stay_together_are_copied_as_such() -> None:
    _, (row,) = _copies("f32[30,20,64]", (1, 0, 2))
    assert "transpose" not in row.source
    assert row.work_items == 20 * 30

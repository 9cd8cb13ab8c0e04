import numpy as np
import pytest

from tests.corpus.root_text import run_text
from tests.unit.codegen.compiled import interpreted, on_cpu
from xla_server.ir.text.parser import parse_module


def test_start_indices_of_any_size_are_clamped() -> None:
    root = (
        "f32[4,2] gather(x0, x1), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={2}"
    )
    given = [np.arange(5, dtype=np.float32), np.array([0, 3, 4, 2**64 - 1], np.uint64)]
    found = run_text(["f32[5]", "u64[4]"], root, given)
    np.testing.assert_array_equal(found, [[0, 1], [3, 4], [3, 4], [3, 4]])


def test_updates_outside_are_skipped_and_repeated_ones_applied_in_order() -> None:
    root = (
        "f32[4] scatter(x0, x1, x2), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply="
    )
    given = [
        np.zeros(4, np.float32),
        np.array([1, -1, 1, 4, 3], np.int32),
        np.array([3, 7, 4, 8, 1], np.float32),
    ]
    for combine, wanted in (("add", 7), ("second", 4), ("hypot", 5)):
        found = run_text(["f32[4]", "s32[5]", "f32[5]"], root + combine, given)
        np.testing.assert_array_equal(found, [0, wanted, 0, 1])
    # The operand is never written to.
    np.testing.assert_array_equal(given[0], np.zeros(4))


def test_nothing_is_written_into_an_input_without_elements() -> None:
    root = (
        "f32[0,3] scatter(x0, x1, x2), update_window_dims={}, inserted_window_dims={0,1}, "
        "scatter_dims_to_operand_dims={1}, index_vector_dim=0, to_apply="
    )
    given = [np.zeros((0, 3), np.float32), np.array([1], np.int32), np.float32(1)]
    for combine in ("add", "second"):
        assert np.shape(run_text(["f32[0,3]", "s32[1]", "f32[]"], root + combine, given)) == (0, 3)


@pytest.mark.parametrize("rows", [0, 5])
def test_slices_of_no_element_give_zeros(rows: int) -> None:
    """A collapsed dimension may have size 0, in an array with or without elements."""
    module = parse_module(
        f"f {{ x = f32[{rows},2] parameter(0) i = s32[3] parameter(1) ROOT g = f32[3,2] "
        "gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
        "index_vector_dim=1, slice_sizes={0,2} }"
    )
    arguments = [np.ones((rows, 2), np.float32), np.array([0, 1, 9], np.int32)]
    for run in (on_cpu, interpreted):
        np.testing.assert_array_equal(run(module, arguments), np.zeros((1, 3, 2), np.float32))

"""A slice of the suite over the cpu platform; `make conformance` runs all of it there too."""

from collections.abc import Callable

import pytest

from tests.conformance import oracle
from tests.conformance.sweep import test_dynamic_shapes
from tests.conformance.sweep.contraction import test_contractions, test_linear_algebra
from tests.conformance.sweep.control import test_control
from tests.conformance.sweep.indexing import test_indexing, test_movement, test_ordering
from tests.conformance.sweep.reduction import test_reductions, test_windows

CHECKS: tuple[Callable[[], None], ...] = (
    test_contractions.test_convolution_with_padding_by_name,
    test_contractions.test_dot_general,
    test_control.test_loops_inside_loops_compute,
    test_control.test_conditional_takes_the_last_branch_for_an_index_out_of_range,
    test_dynamic_shapes.test_rows_are_gathered_by_some_of_the_indices,
    test_indexing.test_gather_clamps_each_slice_into_the_operand,
    test_indexing.test_scatter_combines_floats_of_many_updates,
    test_linear_algebra.test_fft,
    test_movement.test_a_chain_of_moves,
    test_ordering.test_sort_carries_operands_of_every_type,
    test_reductions.test_indices_of_extremes,
    test_windows.test_reduce_window_by_addition,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_gives_xlas_numbers(check: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "PLATFORM", "cpu")
    check()

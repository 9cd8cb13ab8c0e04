"""Select-and-scatter by kernels for a GPU, beside the interpreter."""

import numpy as np

from tests.cuda_twin.codes import launches
from tests.unit.codegen.compiled import built
from tests.unit.codegen.lower.reduction.test_select_and_scatter import scattered


def test_it_is_two_kernels_with_a_thread_for_each_window_and_element() -> None:
    arguments = np.zeros((6, 130), np.float32), np.zeros((3, 130), np.float32), np.float32(0)
    function = scattered("f4", (2, 1), (2, 1), [(0, 0), (0, 0)])
    found = launches(built(function, arguments))
    assert [row.work_items for row in found] == [3 * 130, 6 * 130]

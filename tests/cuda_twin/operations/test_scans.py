"""Running sums, products and maxima by kernels for a GPU, beside the interpreter."""

import numpy as np
import pytest

from tests.cuda_twin.codes import assert_same, both, names
from tests.unit.codegen.lower.reduction.test_scan import running
from xla_client import ops
from xla_client.programs.builder import Op
from xla_server.codegen.gpu.lower.reduction import scan_levels


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_sums_of_many_floats(dtype: str) -> None:
    x = np.random.default_rng(4).standard_normal(5000).astype(dtype)
    ((ours, expected),) = both(running(ops.add, dtype, x.shape, 0), x, np.zeros((), dtype))
    exact = np.cumsum(x.astype(np.clongdouble if dtype == "c16" else np.longdouble))
    epsilon = np.finfo(dtype).eps
    assert np.max(np.abs(ours - exact)) <= epsilon * np.max(np.abs(exact))
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e3 * epsilon)


def test_a_reducer_that_is_not_known_keeps_its_order() -> None:
    x = np.random.default_rng(4).integers(-3, 3, (3, 100, 2)).astype(np.int32)

    def reducer(total: Op, element: Op) -> Op:
        return total * 3 - element

    for axis in (1, 2):
        function = running(reducer, "i4", x.shape, axis)
        assert names(function, x, np.int32(7)) == [""]
        assert_same(function, x, np.int32(7))


def test_long_lines_have_parts_whose_totals_are_scanned() -> None:
    def of(shape: tuple[int, ...], axis: int) -> list[str]:
        x = np.zeros(shape, np.float32)
        return names(running(ops.add, "f4", shape, axis), x, np.float32(0))

    assert of((4, 1024), 1) == of((64, 4), 0) == of((70, 1 << 15), 0) == [""]
    assert of((4, 1025), 1) == of((65, 4), 0) == ["totals", "1", ""]
    long = ["totals", "1.totals", "2", "1", ""]
    assert of((1 << 19,), 0) == long


@pytest.mark.parametrize(("shape", "axis"), [((2, 2500), 1), ((300, 3), 0)])
@pytest.mark.parametrize("behind", [False, True])
def test_totals_have_parts_of_their_own(
    shape: tuple[int, ...], axis: int, behind: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("WARP_LINE", 64), ("WARP_PART", 32), ("THREAD_PART", 4)):
        monkeypatch.setattr(scan_levels, name, size)
    x = np.random.default_rng(6).integers(-9, 9, shape).astype(np.int32)
    function = running(ops.add, "i4", shape, axis, behind)
    assert "2" in names(function, x, np.int32(3))
    assert_same(function, x, np.int32(3))

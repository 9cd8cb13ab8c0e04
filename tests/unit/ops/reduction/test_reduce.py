import numpy as np

from tests.corpus.root_text import run_text


def test_a_sum_does_not_drift() -> None:
    tenths = np.full((2**20, 2), 0.1, np.float32)
    root = "f32[2] reduce(x0, z), dimensions={0}, to_apply=add"
    total = run_text(["f32[1048576,2]"], root, [tenths])
    np.testing.assert_array_equal(
        total, np.full(2, np.float32(2**20 * np.float64(np.float32(0.1))))
    )


def test_a_maximum_is_nan_where_an_element_is() -> None:
    array = np.array([[1, np.nan], [3, -4]], np.float32)
    root = "f32[2] reduce(x0, z), dimensions={1}, to_apply=max"
    found = run_text(["f32[2,2]"], root, [array])
    np.testing.assert_array_equal(found, np.array([np.nan, 3], np.float32))


def test_neighbours_keep_their_order() -> None:
    # The reducer gives its second parameter: what comes last must win, also of an odd number.
    array = np.arange(7, dtype=np.float32)
    root = "f32[] reduce(x0, z), dimensions={0}, to_apply=second"
    assert run_text(["f32[7]"], root, [array]) == 6

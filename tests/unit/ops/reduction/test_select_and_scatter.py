import itertools

import numpy as np

from tests.corpus.root_text import run_text

X = np.array([1, 5, 2, 2, 3], np.float32)
PARAMETERS = ["f32[5]", "f32[2]", "f32[]"]


def scattered(source: list[float], window: str, start: float = 0) -> list[float]:
    root = f"f32[5] select-and-scatter(x0, x1, x2), window={{{window}}}, select=ge, scatter=add"
    arguments = [X, np.array(source, np.float32), np.array(start, np.float32)]
    return [float(number) for number in run_text(PARAMETERS, root, arguments)]


def test_each_source_goes_to_the_element_its_window_selects() -> None:
    assert scattered([10, 20], "size=2 stride=2") == [0, 10, 20, 0, 0]


def test_sources_that_meet_are_combined_and_the_rest_is_the_init_value() -> None:
    assert scattered([10, 20], "size=3 stride=1 pad=0_-1", start=1) == [1, 31, 1, 1, 1]


def test_a_window_is_walked_in_row_major_order() -> None:
    """The first of equal elements is selected, also where padding cuts a window."""
    x = np.random.default_rng(1).integers(0, 2, (5, 4, 3)).astype(np.float32)
    source = np.arange(1, 1 + 5 * 5 * 4, dtype=np.float32).reshape(5, 5, 4)
    root = (
        "f32[5,4,3] select-and-scatter(x0, x1, x2), window={size=2x2x2 pad=0_1x1_1x1_1}, "
        "select=ge, scatter=add"
    )
    expected = np.zeros_like(x)
    for at in np.ndindex(source.shape):
        kept = None
        for step in itertools.product(range(2), repeat=3):
            position = (at[0] + step[0], at[1] + step[1] - 1, at[2] + step[2] - 1)
            inside = all(0 <= p < size for p, size in zip(position, x.shape, strict=True))
            if inside and (kept is None or x[kept] < x[position]):
                kept = position
        assert kept is not None
        expected[kept] += source[at]
    parameters = ["f32[5,4,3]", "f32[5,5,4]", "f32[]"]
    assert np.array_equal(run_text(parameters, root, [x, source, np.float32(0)]), expected)

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

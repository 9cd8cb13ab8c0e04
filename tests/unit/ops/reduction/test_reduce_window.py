import numpy as np

from tests.corpus.root_text import run_text


def test_padding_that_cuts_off_everything_leaves_no_window() -> None:
    root = "f32[0] reduce-window(x0, z), window={size=2 pad=-4_-4}, to_apply=add"
    assert run_text(["f32[5]"], root, [np.ones(5, np.float32)]).shape == (0,)

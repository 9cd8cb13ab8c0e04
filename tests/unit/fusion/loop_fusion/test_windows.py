"""Short windows, computed in the loop that reads their results."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.unit.codegen.from_jax import near_texts
from xla_server.fusion.analysis.windows import is_short_window
from xla_server.target.target import PROCESSOR

_RANDOM = np.random.default_rng(0)


def _of(*dimensions: int) -> Any:
    return _RANDOM.standard_normal(dimensions).astype(np.float32)


def _windows(x: Any, size: int) -> Any:
    return jax.lax.reduce_window(
        x, 0.0, jax.lax.add, (1, size, size, 1), (1, size, size, 1), "VALID"
    )


def test_a_short_window_is_summed_in_the_loop_of_its_result() -> None:
    (text,) = near_texts(lambda x: _windows(x, 2) * 0.25, _of(2, 8, 8, 20))
    assert "reload" not in text


def test_what_follows_a_long_window_is_computed_in_its_last_loop() -> None:
    (text,) = near_texts(lambda x: _windows(x, 4) * 0.25, _of(2, 8, 8, 20))
    assert text.count("store_f32") == 1


def test_long_windows_of_one_form_are_one_kernel() -> None:
    def form(size: int) -> Any:
        return (1, size, size, 1), (1, 1, 1, 1), "SAME"

    def sums(first: int, second: int) -> Callable[[Any], Any]:
        return lambda x: (
            lax.reduce_window(x, 0.0, lax.add, *form(first))
            / lax.reduce_window(abs(x), 1.0, lax.add, *form(second))
        )

    assert len(near_texts(sums(4, 4), _of(2, 9, 8, 20))) == 1
    assert len(near_texts(sums(4, 5), _of(2, 9, 8, 20))) == 2


@pytest.mark.parametrize("name", ["broadcast", "reduced", "two_readers"])
def test_a_window_is_not_computed_more_than_once(name: str) -> None:
    def program(x: Any) -> Any:
        sums = _windows(x, 2)
        if name == "broadcast":
            return jnp.broadcast_to(sums[:, :, :, :, None], (*sums.shape, 3)) * 2
        if name == "reduced":
            return (sums * 2).sum(-1)
        return sums * 2, (sums + 1).sum()

    assert len(near_texts(program, _of(2, 8, 8, 20))) > 1


def test_windows_are_short_where_their_loops_are_unrolled() -> None:
    for short in ((3, 3), (1, 2, 4), (8,), ()):
        assert is_short_window(short, PROCESSOR)
    for long in ((9,), (2, 5), (1, 3, 4)):
        assert not is_short_window(long, PROCESSOR)

"""Reductions over several dimensions, in as few loops as there can be."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.unit.codegen.from_jax import near_texts

X = np.random.default_rng(0).integers(-1000, 1000, (6, 5, 7, 11))


def _text(function: Callable[..., Any], *arguments: Any) -> str:
    """The text of a program's only kernel, whose results are the interpreter's."""
    (text,) = near_texts(function, *arguments, atol=1e-4)
    return text


@pytest.mark.parametrize("axes", [(0, 1), (1, 2), (0, 1, 2), (0, 2), (1, 3), (2, 3), (1, 2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_results(axes: tuple[int, ...], dtype: Any) -> None:
    _text(lambda x: jnp.sum(x, axes), X.astype(dtype))
    _text(lambda x: jnp.max(x * 2, axes), X.astype(dtype))


def test_neighbouring_dimensions_are_reduced_in_one_loop() -> None:
    x = X.reshape(30, 7, 11).astype(np.float32)
    assert "in range(77)" in _text(lambda x: jnp.sum(x, (1, 2)), x)
    # Elements that are the same along one of them do not follow each other.
    text = _text(lambda x, y: jnp.sum(x * y[:, :, None], (1, 2)), x, x[:, :, 0])
    assert "in range(77)" not in text


def test_dimensions_with_others_between_are_not_one_loop() -> None:
    x = X.reshape(6, 35, 11).astype(np.float32)
    assert "in range(66)" not in _text(lambda x: jnp.sum(x, (0, 2)), x)

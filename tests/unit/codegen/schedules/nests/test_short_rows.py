"""Kernels over many short rows, whose heads are computed side by side."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from tests.processors import TARGET
from tests.unit.codegen.compiled import imported, interpreted, on_cpu, pairs, texts_of

_RANDOM = np.random.default_rng(0)
TUNED = TARGET.tuning.loops
ROWS, LONGEST = TUNED.short_row_block, TUNED.max_short_row
SHORT = _RANDOM.standard_normal((ROWS * 3 + 5, 12)).astype(np.float32)
DEEP = _RANDOM.standard_normal((5, 40, 7)).astype(np.float32)


def _programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    def centred(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / jnp.log1p(jnp.abs(x).sum(-1, keepdims=True))

    def scaled(x: Any, scale: Any) -> Any:
        spread = jnp.sqrt((x * x).sum(-1) * scale)
        return x * spread[:, None] + jnp.exp(scale)[:, None]

    def with_heads(x: Any) -> Any:
        total = jnp.log(jnp.abs(x).sum(-1, keepdims=True))
        return x - total, jnp.broadcast_to(total, x.shape)

    return {
        "log_softmax": (jax.nn.log_softmax, (SHORT,)),
        "of_three_dimensions": (centred, (DEEP,)),
        "with_what_rows_have": (scaled, (SHORT, np.abs(SHORT[:, 0]))),
        "several_results": (with_heads, (SHORT,)),
        "in_half": (jax.nn.log_softmax, (SHORT.astype(np.float16),)),
        "standardised": (jax.nn.standardize, (SHORT,)),
    }


NAMES = (
    *("log_softmax", "of_three_dimensions", "with_what_rows_have"),
    *("several_results", "in_half", "standardised"),
)


def _texts(function: Callable[..., Any], *arguments: Any) -> list[str]:
    module = imported(lower(function, *arguments))
    return texts_of(module)


@pytest.mark.parametrize("name", NAMES)
def test_heads_are_computed_row_beside_row(name: str) -> None:
    function, arguments = _programs()[name]
    assert any(f"range(start, stop, {ROWS})" in text for text in _texts(function, *arguments))
    module = imported(lower(function, *arguments))
    bound = 4e-3 if name == "in_half" else 2e-6
    for ours, expected in pairs(module, arguments):
        np.testing.assert_allclose(ours, expected, rtol=bound, atol=bound)


@pytest.mark.parametrize("width", [4, 6, 12, 32, 48])
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_elementary_functions_of_short_rows_are_inlined(name: str, width: int) -> None:
    rows = SHORT.reshape(-1)[: 48 * 40].reshape(-1, width)
    function = getattr(jax.nn, name)
    (text,) = _texts(function, rows)
    assert "called_" not in text
    module = imported(lower(function, rows))
    ((ours,), (expected,)) = on_cpu(module, (rows,)), interpreted(module, (rows,))
    np.testing.assert_allclose(ours, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(
    ("function", "rows"),
    [
        (lambda x: x - x.sum(-1, keepdims=True), SHORT),
        (lambda x: x / abs(x).sum(-1, keepdims=True), SHORT[: ROWS - 1]),
        (lambda x: x - abs(x).sum(-1, keepdims=True) ** 0.5, np.tile(SHORT, (1, LONGEST))),
    ],
    ids=["cheap_heads", "few_rows", "long_rows"],
)
def test_is_left(function: Callable[..., Any], rows: Any) -> None:
    assert not any(f"range(start, stop, {ROWS})" in text for text in _texts(function, rows))


def test_rows_that_are_kept_are_left() -> None:
    (text,) = _texts(jax.nn.softmax, SHORT)
    assert "keep_f32(row0" in text
    assert f"range(start, stop, {ROWS})" not in text

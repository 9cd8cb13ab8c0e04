"""Rows whose values one loop of a kernel keeps for the next."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.jax.programs import lower
from tests.processors import TARGET
from tests.unit.codegen.compiled import imported, interpreted, on_cpu, pairs, texts_of
from xla_server.backends.compiled.cpu import Cpu
from xla_server.ir.module import HloModule

_RANDOM = np.random.default_rng(0)
X = _RANDOM.standard_normal((24, 40)).astype(np.float32)
Y = _RANDOM.standard_normal((24, 40)).astype(np.float32)


def _softmax(x: Any) -> Any:
    return jax.nn.softmax(x)


def _softmax_gradient(x: Any, y: Any) -> Any:
    return jax.vjp(jax.nn.softmax, x)[1](y)[0]


def _norm_of_functions(x: Any) -> Any:
    y = jnp.tanh(x)
    centred = y - y.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def _softmax_in_half(x: Any) -> Any:
    return _softmax(x.astype(jnp.bfloat16)).astype(jnp.float32)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (_softmax, (X,)),
    "softmax_in_double": (_softmax, (X.astype(np.float64),)),
    "softmax_in_half": (_softmax_in_half, (X,)),
    "softmax_of_one_row": (_softmax, (X[0],)),
    "softmax_of_long_rows": (_softmax, (_RANDOM.standard_normal((3, 3000)).astype(np.float32),)),
    "softmax_gradient": (_softmax_gradient, (X, Y)),
    "norm_of_functions": (_norm_of_functions, (X,)),
}


def _module(name: str) -> tuple[HloModule, tuple[Any, ...]]:
    function, arguments = PROGRAMS[name]
    with jax.enable_x64(True):
        return imported(lower(function, *arguments)), arguments


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_interpreted(name: str) -> None:
    module, arguments = _module(name)
    ((compiled, expected),) = pairs(module, arguments)
    narrow = 1e-2 if name == "softmax_in_half" else 2e-6
    np.testing.assert_allclose(compiled, expected, rtol=narrow, atol=narrow)


def test_exponentials_are_computed_once() -> None:
    (text,) = texts_of(_module("softmax")[0])
    assert text.count("exp_f32(") == 1
    assert text.count("keep_f32(") == text.count("kept_f32(") == 1


def test_cheap_values_are_computed_again() -> None:
    (text,) = texts_of(imported(lower(jax.nn.standardize, X)))
    assert "keep_" not in text


def test_rows_too_long_for_the_stack_are_computed_again() -> None:
    long = np.zeros((2, TARGET.tuning.loops.max_row_buffer_bytes // 4 + 1), np.float32)
    texts = "".join(texts_of(imported(lower(_softmax, long))))
    assert "keep_" not in texts
    assert texts.count("exp_f32(") > 1 or len(texts) > 1


def _from_largest(y: Any) -> Any:
    """Elements of rows, which are stored rounded, and their distances to the largest."""
    return y, y - y.max(1, keepdims=True)


@pytest.mark.parametrize(
    ("moments", "once"),
    [
        (lambda x: jnp.exp(x).sum(1) / (jnp.exp(x) * x).sum(1), ["exp_f32(", "range(40)"]),
        (lambda x: (x.sum(0), (x * x).sum(0), x.max(0)), ["range(0, 24, 8)"]),
        (lambda x: _from_largest(jnp.exp(x.astype(jnp.bfloat16))), ["exp_f32("]),
    ],
    ids=["one_row", "columns", "rounded_row"],
)
def test_sums_share_what_they_read(moments: Any, once: list[str]) -> None:
    module = imported(lower(moments, X))
    (text,) = texts_of(module)
    assert [text.count(each) for each in once] == [1] * len(once)
    for compiled, expected in zip(on_cpu(module, (X,)), interpreted(module, (X,)), strict=True):
        np.testing.assert_allclose(compiled, expected, rtol=2e-6, atol=2e-5)


def test_the_same_bits_on_any_number_of_threads() -> None:
    module, arguments = _module("softmax_gradient")
    assert_equal_bits(*(on_cpu(module, arguments, Cpu(threads=n))[0] for n in (1, 3)))

"""What follows a dot, done block by block."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.jax_programs import lower
from tests.unit.codegen.compiled import imported, interpreted, on_cpu
from xla_server.backends.compilation import compile_module
from xla_server.backends.cpu import Cpu
from xla_server.codegen.lowering import kernels_of

_RANDOM = np.random.default_rng(0)


def _f32(*dimensions: int) -> Any:
    return _RANDOM.standard_normal(dimensions).astype(np.float32)


def _dense(x: Any, w: Any, b: Any) -> Any:
    import jax

    return jax.nn.relu(x @ w + b)


def _inner(x: Any, y: Any) -> Any:
    import jax.numpy as jnp

    return jnp.maximum(jnp.einsum("kbc,ckb->b", x, y), 0)


def _half(x: Any, w: Any, b: Any) -> Any:
    import jax.numpy as jnp

    return (x @ w + b).astype(jnp.bfloat16)


def _both(x: Any, w: Any, b: Any) -> Any:
    product = x @ w
    return product, product * b


def _residual(x: Any, w: Any, r: Any) -> Any:
    return 0.5 * (x @ w) + r


def _weights(q: Any, k: Any) -> Any:
    import jax
    import jax.numpy as jnp

    return jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k) / 8)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "one_piece": (_dense, (_f32(8, 6), _f32(6, 5), _f32(5))),
    "rows_in_pieces": (_dense, (_f32(300, 100), _f32(100, 150), _f32(150))),
    "columns_in_pieces": (_dense, (_f32(100, 150), _f32(150, 300), _f32(300))),
    "complex": (
        _residual,
        (_f32(9, 7).astype(np.complex64), _f32(7, 5) * np.complex64(1j), _f32(9, 5)),
    ),
    "another_type": (_half, (_f32(70, 60), _f32(60, 50), _f32(50))),
    "residual": (_residual, (_f32(64, 32), _f32(32, 16), _f32(64, 16))),
    "rows_of_a_batch": (_weights, (_f32(3, 20, 8), _f32(3, 24, 8))),
    "whole_rows_in_pieces": (_weights, (_f32(1, 130, 64), _f32(1, 600, 64))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_as_interpreted(name: str) -> None:
    function, arguments = PROGRAMS[name]
    module = imported(lower(function, *arguments))
    assert len(kernels_of(compile_module(module).code)) == 1
    (compiled,), (expected,) = on_cpu(module, arguments), interpreted(module, arguments)
    assert (compiled.dtype, compiled.shape) == (expected.dtype, expected.shape)
    relative = 1e-2 if name == "another_type" else 1e-5
    wide = np.complex128 if name == "complex" else np.float64
    np.testing.assert_allclose(
        compiled.astype(wide), expected.astype(wide), rtol=relative, atol=relative
    )


def test_the_product_may_be_a_result_too() -> None:
    arguments = (_f32(70, 60), _f32(60, 50), _f32(50))
    module = imported(lower(_both, *arguments))
    assert len(kernels_of(compile_module(module).code)) == 1
    for compiled, expected in zip(
        on_cpu(module, arguments), interpreted(module, arguments), strict=True
    ):
        np.testing.assert_allclose(compiled, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["columns_in_pieces", "whole_rows_in_pieces"])
def test_the_same_bits_on_any_number_of_threads(name: str) -> None:
    function, arguments = PROGRAMS[name]
    module = imported(lower(function, *arguments))
    assert_equal_bits(*(on_cpu(module, arguments, Cpu(threads=n))[0] for n in (1, 3)))


def test_a_batch_of_products_of_one_element_each() -> None:
    """One column only: all there is to do stands in the loop over rows."""
    arguments = _f32(4, 14, 5), _f32(5, 4, 14)
    module = imported(lower(_inner, *arguments))
    (compiled,), (expected,) = on_cpu(module, arguments), interpreted(module, arguments)
    np.testing.assert_allclose(compiled, expected, rtol=1e-5, atol=1e-5)

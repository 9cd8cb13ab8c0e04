"""JAX functions with arguments, for tests that want programs of another origin.

``CASES`` maps a name to a function that returns (function, arguments). jax is imported when a
case is made.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

Case = tuple[Callable[..., Any], tuple[Any, ...]]

CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """Enter ``make`` into the table under its name."""
    CASES[make.__name__] = make
    return make


def _f32(*dims: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(dims), dtype=np.float32).reshape(dims) / 7


@case
def elementwise() -> Case:
    import jax.numpy as jnp

    return lambda x: jnp.tanh(x * x + 1) * jnp.exp(-x) + jnp.where(x > 0, x, jnp.log1p(-x)), (
        _f32(4, 5),
    )


@case
def dot() -> Case:
    import jax.numpy as jnp

    return functools.partial(jnp.einsum, "bij,bjk->bik"), (_f32(2, 3, 4), _f32(2, 4, 5))


@case
def dot_highest() -> Case:
    import jax
    import jax.numpy as jnp

    return functools.partial(jnp.dot, precision=jax.lax.Precision.HIGHEST), (_f32(3, 4), _f32(4, 5))


@case
def next_token_loss() -> Case:
    """The gradient of a slice is a pad, which may be written over what it pads."""
    import jax
    import jax.numpy as jnp

    def loss(scale: Any, head: Any, x: Any) -> Any:
        size = jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
        logits = (x * size * scale) @ head
        return -jax.nn.log_softmax(logits[:-1])[:, 0].mean()

    random = np.random.default_rng(0)
    shapes = ((256,), (256, 100), (64, 256))
    arguments = (random.standard_normal(shape).astype(np.float32) / 8 for shape in shapes)
    return jax.grad(loss, (0, 1, 2)), tuple(arguments)


@case
def ragged_dot() -> Case:
    import jax

    return jax.lax.ragged_dot, (_f32(6, 4), _f32(2, 4, 5), np.array([2, 4], np.int32))


@case
def convolution() -> Case:
    import jax

    def run(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, w, (2, 1), "SAME", rhs_dilation=(1, 2), dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    return run, (_f32(2, 8, 8, 3), _f32(3, 3, 3, 4))


@case
def reduce() -> Case:
    import jax.numpy as jnp

    return lambda x: (jnp.sum(x, 1), jnp.max(x), jnp.argmin(x, 0), jnp.any(x > 1)), (_f32(4, 5),)


@case
def reduce_window() -> Case:
    import jax

    def pool(x: Any) -> Any:
        return jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    # The gradient brings select-and-scatter.
    return jax.value_and_grad(lambda x: pool(x).sum()), (_f32(1, 4, 4, 2),)


@case
def cumulative() -> Case:
    import jax.numpy as jnp

    return lambda x: (jnp.cumsum(x, 1), jnp.cumprod(x, 0)), (_f32(4, 6),)


@case
def gather() -> Case:
    return lambda x, i: x[:, i, 0], (_f32(3, 4, 5), np.array([[0, 2], [3, 1]], np.int32))


@case
def scatter() -> Case:
    return lambda x, i: (x.at[i].add(2.0), x.at[i, 1].set(3.0)), (
        _f32(5, 4),
        np.array([0, 2, 2], np.int32),
    )


@case
def slices() -> Case:
    import jax
    import jax.numpy as jnp

    def run(x: Any, i: Any) -> Any:
        part = jax.lax.dynamic_slice(x, (i, i), (2, 3))
        padded = jax.lax.pad(part, 0.0, ((1, 0, 1), (-1, 2, 0)))
        joined = jnp.concatenate([padded[::-1], padded], axis=1)
        return jax.lax.dynamic_update_slice(x, part * 2, (0, i)), joined.T, x[1:4:2]

    return run, (_f32(5, 6), np.int32(1))


@case
def sort() -> Case:
    import jax
    import jax.numpy as jnp

    return lambda x: (jnp.sort(x), jnp.argsort(-x), jax.lax.top_k(x, 3)), (_f32(4, 6),)


@case
def while_loop() -> Case:
    import jax

    return lambda n, x: jax.lax.while_loop(
        lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 1.5), (0, x)
    ), (np.int32(10), np.float32(2))


@case
def scan() -> Case:
    import jax

    return lambda xs: jax.lax.scan(lambda c, x: (c + x, c * x), 0.0, xs), (_f32(16),)


@case
def cond() -> Case:
    import jax

    def run(i: Any, x: Any) -> Any:
        branches = [lambda v: v + 1, lambda v: v * 2, lambda v: -v]
        return jax.lax.switch(i, branches, jax.lax.cond(x[0] > 0, abs, lambda v: v / 3, x))

    return run, (np.int32(1), _f32(3))


@case
def fft() -> Case:
    import jax.numpy as jnp

    return lambda x: (jnp.fft.rfft(x), jnp.fft.ifft(x), jnp.fft.irfft(jnp.fft.fft2(x))), (
        _f32(4, 8),
    )


@case
def cholesky() -> Case:
    import jax
    import jax.numpy as jnp

    def run(x: Any, b: Any) -> Any:
        factor = jax.lax.linalg.cholesky(x @ x.T + 9 * jnp.eye(4))
        return jax.lax.linalg.triangular_solve(factor, b, left_side=True, lower=True)

    return run, (_f32(4, 4), _f32(4, 2))


@case
def random_threefry() -> Case:
    import jax

    return lambda seed: (
        jax.random.normal(jax.random.key(seed), (4, 5)),
        jax.random.permutation(jax.random.key(seed), 8),
    ), (np.uint32(3),)


@case
def random_bits() -> Case:
    import jax

    def run(key: Any) -> Any:
        return [jax.lax.rng_bit_generator(key, (5, 3), algorithm=kind) for kind in range(3)]

    return run, (np.arange(4, dtype=np.uint32),)


@case
def random_uniform() -> Case:
    import jax

    return lambda: jax.lax.rng_uniform(0.0, 1.0, (4, 4)), ()


@case
def batch_norm() -> Case:
    def run(x: Any, scale: Any, offset: Any) -> Any:
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return (x - mean) * scale / (var + 1e-5) ** 0.5 + offset

    return run, (_f32(2, 3, 3, 4), _f32(4), _f32(4))


@case
def converts() -> Case:
    import jax
    import jax.numpy as jnp

    def run(x: Any) -> Any:
        return (
            x.astype(jnp.bfloat16),
            x.astype(jnp.int4),
            jax.lax.bitcast_convert_type(x, jnp.uint8),
            jax.lax.reduce_precision(x, 5, 10),
        )

    return run, (_f32(4, 5),)


@case
def custom_calls() -> Case:
    import jax.numpy as jnp

    return lambda x: (jnp.linalg.qr(x), jnp.linalg.eigh(x @ x.T), jnp.linalg.svd(x)), (_f32(4, 4),)


@case
def donated() -> Case:
    import jax

    return jax.jit(lambda x, y: (x + 1, y * 2), donate_argnums=0), (_f32(4), _f32(4))


@case
def mlp_train_step() -> Case:
    import jax
    import jax.numpy as jnp

    def loss(params: Any, x: Any, labels: Any) -> Any:
        for w, b in params[:-1]:
            x = jax.nn.gelu(x @ w + b)
        logits = x @ params[-1][0] + params[-1][1]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1))

    def step(params: Any, x: Any, labels: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x, labels)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    random = np.random.default_rng(1)
    sizes = [(8, 16), (16,), (16, 4), (4,), (5, 8)]
    w1, b1, w2, b2, x = (random.standard_normal(size).astype(np.float32) for size in sizes)
    return step, ([(w1, b1), (w2, b2)], x, np.array([0, 1, 2, 3, 0], np.int32))


@case
def cnn_train_step() -> Case:
    import jax
    import jax.numpy as jnp

    def loss(params: Any, x: Any) -> Any:
        for w in params:
            x = jax.lax.conv_general_dilated(
                x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x)
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        return jnp.mean(x**2)

    return jax.value_and_grad(loss), ([_f32(3, 3, 1, 4), _f32(3, 3, 4, 8)], _f32(2, 8, 8, 1))

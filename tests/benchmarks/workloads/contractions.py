"""Products of matrices, convolutions, and windows."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.benchmarks.workloads.workload import Draws, Workload

_NUMBERS = ("NHWC", "HWIO", "NHWC")


def products() -> dict[str, Workload]:
    """Small, large, batched, and in other types than f32."""
    draws = Draws(4)
    x, large = draws.f32(512, 512), draws.f32(1024, 1024)
    small, vector = draws.f32(32, 32), draws.f32(1024)
    bytes_ = draws.s32(100, 256, 256).astype(np.int8)
    return {
        "matmul 32": Workload(jnp.matmul, (small, small)),
        "matmul 512": Workload(jnp.matmul, (x, x)),
        "matmul 1024": Workload(jnp.matmul, (large, large)),
        "matmul 512 of transposed": Workload(lambda a, b: a.T @ b.T, (x, x)),
        "matmul tall": Workload(jnp.matmul, (draws.f32(8192, 64), draws.f32(64, 32))),
        "matmul with epilogue": Workload(lambda a, b, c: jax.nn.relu(a @ b + c), (x, x, x[0])),
        "matrix by vector": Workload(jnp.matmul, (large, vector)),
        "inner product": Workload(jnp.vdot, (draws.f32(1 << 20), draws.f32(1 << 20))),
        "outer product": Workload(jnp.outer, (vector, vector)),
        "batched matmul": Workload(jnp.matmul, (draws.f32(64, 64, 64), draws.f32(64, 64, 64))),
        "einsum of heads": Workload(
            functools.partial(jnp.einsum, "bqhd,bkhd->bhqk"),
            (draws.f32(4, 128, 8, 64), draws.f32(4, 128, 8, 64)),
        ),
        "matmul 512 f64": Workload(jnp.matmul, (x.astype(np.float64),) * 2),
        "matmul 512 bf16": Workload(jnp.matmul, (jnp.asarray(x, jnp.bfloat16),) * 2),
        "matmul 256 c64": Workload(jnp.matmul, (x[:256, :256].astype(np.complex64),) * 2),
        "matmul 256 s8": Workload(
            lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32), (bytes_, bytes_)
        ),
    }


def convolutions() -> dict[str, Workload]:
    """The kinds that networks are made of, and their gradients."""
    draws = Draws(5)
    image, kernel = draws.f32(2, 28, 28, 64), draws.f32(3, 3, 64, 64, scale=0.05)
    stem, wide = draws.f32(2, 112, 112, 3), draws.f32(7, 7, 3, 64, scale=0.1)
    depth = draws.f32(3, 3, 1, 64)

    def weight_gradient(image: Any, kernel: Any) -> Any:
        return jax.grad(lambda k: jnp.sum(_convolve()(image, k) ** 2))(kernel)

    def input_gradient(image: Any, kernel: Any) -> Any:
        return jax.grad(lambda i: jnp.sum(_convolve()(i, kernel) ** 2))(image)

    def transposed(image: Any, kernel: Any) -> Any:
        return lax.conv_transpose(image, kernel, (2, 2), "SAME", dimension_numbers=_NUMBERS)

    def channels_first(image: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(image, kernel, (1, 1), "SAME")

    return {
        "convolution 3x3": Workload(_convolve(), (image, kernel)),
        "convolution 3x3 with epilogue": Workload(
            lambda i, k, b: jax.nn.relu(_convolve()(i, k) + b), (image, kernel, draws.f32(64))
        ),
        "convolution 3x3 stride 2": Workload(_convolve(2), (image, kernel)),
        "convolution 3x3 channels first": Workload(
            channels_first, (image.transpose(0, 3, 1, 2), kernel.transpose(3, 2, 0, 1))
        ),
        "convolution 3x3 dilated": Workload(_convolve(rhs_dilation=(2, 2)), (image, kernel)),
        "convolution 1x1": Workload(_convolve(), (image, kernel[:1, :1])),
        "convolution 7x7 stride 2": Workload(_convolve(2), (stem, wide)),
        "convolution depthwise": Workload(_convolve(feature_group_count=64), (image, depth)),
        "convolution grouped": Workload(
            _convolve(feature_group_count=4), (image, draws.f32(3, 3, 16, 64))
        ),
        "convolution transposed": Workload(transposed, (image, kernel)),
        "convolution weight gradient": Workload(weight_gradient, (image, kernel)),
        "convolution input gradient": Workload(input_gradient, (image, kernel)),
        "convolution 1d": Workload(
            lambda x, k: lax.conv_general_dilated(
                x, k, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
            ),
            (draws.f32(4, 1024, 32), draws.f32(5, 32, 32)),
        ),
    }


def windows() -> dict[str, Workload]:
    """Pooling and its gradients."""
    image = Draws(6).f32(8, 56, 56, 64)
    return {
        "max pool 3x3": Workload(_max_pool, (image,)),
        "max pool gradient": Workload(jax.grad(lambda x: jnp.sum(_max_pool(x) ** 2)), (image,)),
        "average pool 2x2": Workload(_average_pool, (image,)),
        "average pool gradient": Workload(
            jax.grad(lambda x: jnp.sum(_average_pool(x) ** 2)), (image,)
        ),
    }


def _convolve(stride: int = 1, **options: Any) -> Callable[..., Any]:
    return functools.partial(
        lax.conv_general_dilated,
        window_strides=(stride, stride),
        padding="SAME",
        dimension_numbers=_NUMBERS,
        **options,
    )


def _max_pool(image: Any) -> Any:
    return lax.reduce_window(image, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def _average_pool(image: Any) -> Any:
    return lax.reduce_window(image, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4

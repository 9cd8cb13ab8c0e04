"""Operands that are reshapes: their values have the shape of what was reshaped."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.lax import linalg

from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported, interpreted, on_cpu
from xla_server.backends.compile_options import CompileOptions
from xla_server.passes.framework.selection import PassOptions

Program = Callable[..., Any]


def images(x: Any) -> Any:
    return x.reshape(2, 3, 4, 5)


def square(x: Any) -> Any:
    return x.reshape(1, 2, 2, 5, 6)[..., :5]


def definite(x: Any) -> Any:
    matrices = x.reshape(2, 3, 4, 5)
    return matrices @ matrices.swapaxes(-1, -2) + 20 * jnp.eye(4)


def convolved(order: str, kernel_order: str, groups: int = 1) -> Program:
    def program(x: Any, w: Any) -> Any:
        operand = x.reshape(tuple({"N": 2, "C": 3, "H": 4, "W": 5}[d] for d in order))
        sizes = {"O": 6, "I": 3 // groups, "H": 3, "W": 2}
        kernel = w[: 36 * 3 // groups].reshape(tuple(sizes[d] for d in kernel_order))
        numbers = (order, kernel_order, order)
        return lax.conv_general_dilated(
            operand, kernel, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=groups
        )

    return program


def bits(x: Any) -> Any:
    return lax.rng_bit_generator(x[:4].astype(jnp.uint32).reshape(2, 2).reshape(4), (3, 5))


PROGRAMS: dict[str, Program] = {
    "fft": lambda x: jnp.fft.fftn(images(x), axes=(2, 3)).reshape(4, 30),
    "rfft": lambda x: jnp.fft.rfft2(images(x)),
    "irfft": lambda x: jnp.fft.irfft2(lax.complex(x, -x).reshape(3, 2, 4, 5)),
    "qr": lambda x: linalg.qr(square(x), full_matrices=False),
    "householder": lambda x: linalg.householder_product(
        images(x)[..., :3], x[:18].reshape(2, 3, 3)
    ),
    "lu": lambda x: linalg.lu(square(x)),
    "svd": lambda x: linalg.svd(images(x), compute_uv=False),
    "eigh": lambda x: jnp.linalg.eigvalsh(definite(x)),
    "cholesky": lambda x: linalg.cholesky(definite(x).reshape(6, 4, 4).reshape(3, 2, 4, 4)),
    "triangular": lambda x: linalg.triangular_solve(
        definite(x).reshape(6, 4, 4), images(x).reshape(6, 4, 5), left_side=True
    ),
    "dot": lambda x, w: jnp.einsum("bcij,bcjk->bcik", images(x), w[:60].reshape(2, 3, 5, 2)),
    "sort": lambda x: lax.sort(images(x), dimension=1),
    "topk": lambda x: lax.top_k(x.reshape(6, 20), 3),
    "cumsum": lambda x: lax.cumsum(images(x), axis=2),
    "scatter": lambda x: jnp.zeros((4, 5)).at[jnp.array([3, 1, 3])].add(x[:15].reshape(3, 5)),
    "gather": lambda x: images(x)[:, jnp.array([2, 0])],
    "pool": jax.grad(
        lambda x: jnp.sum(
            lax.reduce_window(images(x), -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 1, 2), "SAME") ** 2
        )
    ),
    "transpose": lambda x: images(x).transpose(2, 0, 3, 1),
    "update": lambda x: lax.dynamic_update_slice(
        images(x), x[:12].reshape(1, 3, 2, 2), (0, 0, 1, 2)
    ),
    "bits": bits,
    "channels first": convolved("NCHW", "OIHW"),
    "channels last": convolved("NHWC", "HWIO"),
    "batch last": convolved("CHWN", "IHWO"),
    "depthwise": convolved("NHWC", "HWIO", 3),
    "depthwise channels first": convolved("NCHW", "OIHW", 3),
}

LEVELS = {"optimised": CompileOptions(), "plain": CompileOptions(PassOptions(level=0))}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_reshape_is_read_in_its_own_shape(name: str, level: str) -> None:
    chance = np.random.default_rng(7)
    program = PROGRAMS[name]
    count = 2 if program.__code__.co_argcount == 2 else 1
    arrays = [chance.standard_normal(120).astype(np.float32) for _ in range(count)]
    module = imported(lower(program, *arrays))
    pairs = zip(
        on_cpu(module, arrays, options=LEVELS[level]), interpreted(module, arrays), strict=True
    )
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4)

"""Execution against jaxlib's CPU backend."""

import functools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

import xla_client
from tests.benchmarks.harness import Comparison, compare


def run_to_the_end(compiled: Callable[..., object], arguments: list[jax.Array]) -> object:
    """Call a compiled JAX function and wait for its results."""
    return jax.block_until_ready(compiled(*arguments))


def programs(client: xla_client.Client) -> Iterator[Comparison]:
    """Programs lowered by JAX, run here (arguments resident) and by jaxlib on this machine."""
    random = np.random.default_rng(1)

    def matrix(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(np.float32)

    def mlp(w1, w2, x, y):  # type: ignore[no-untyped-def]
        def loss(w1, w2):  # type: ignore[no-untyped-def]
            return jnp.mean((jnp.tanh(x @ w1) @ w2 - y) ** 2)

        return jax.grad(loss, (0, 1))(w1, w2)

    cases: dict[str, tuple[Callable[..., object], tuple[np.ndarray, ...]]] = {
        "a*x+y over 1e6": (lambda a, x, y: a * x + y, (matrix(1)[0], matrix(10**6), matrix(10**6))),
        "dot 512x512x512": (jnp.dot, (matrix(512, 512), matrix(512, 512))),
        "MLP gradient, batch 128": (
            mlp,
            (matrix(256, 512), matrix(512, 64), matrix(128, 256), matrix(128, 64)),
        ),
    }
    for name, (function, arrays) in cases.items():
        lowered = jax.jit(function).lower(*arrays)
        hlo = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
        executable = client.compile(xla_client.Computation.from_serialized(hlo))
        ours = [client.to_device(array) for array in arrays]
        theirs = [jnp.asarray(array) for array in arrays]
        yield compare(
            name,
            "jaxlib CPU, in process",
            functools.partial(executable, *ours),
            functools.partial(run_to_the_end, lowered.compile(), theirs),
            calls=5,
        )

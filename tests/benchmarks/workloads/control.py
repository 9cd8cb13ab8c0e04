"""Loops, and programs so small that only their start counts."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.benchmarks.workloads.workload import Draws, Workload

_ONE = np.float32(1)


def workloads() -> dict[str, Workload]:
    """Iterations that do next to nothing, and iterations that do some."""
    x = Draws(8).f32(256, 128)
    return {
        "one number": Workload(lambda x: x + 1.0, (_ONE,)),
        "four numbers": Workload(lambda x: (x + 1, x * 2, x - 3, -x), (x[0, :4],)),
        "thirty-two arguments": Workload(lambda *x: sum(x[1:], x[0]), tuple(x[:32])),
        "conditional": Workload(lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), (x[0],)),
        "while of 1e6 iterations": Workload(
            lambda x: lax.fori_loop(0, 1_000_000, lambda i, y: y * 0.999 + i, x), (_ONE,)
        ),
        "collatz": Workload(_collatz, (np.int32(837799),)),
        "newton in a while": Workload(_newton, (np.abs(x[0]) + 1,)),
        "scan of 256 steps": Workload(_scan, (x,)),
        "fields of a grid": Workload(_fields, tuple(Draws(9).f32(3, 300, 300))),
        "map over rows": Workload(lambda x: lax.map(lambda row: jnp.cumsum(row) * 2, x), (x,)),
    }


def _collatz(start: Any) -> Any:
    def step(state: Any) -> Any:
        number, count = state
        return jnp.where(number % 2 == 0, number // 2, (3 * number + 1) % 1000003), count + 1

    return lax.while_loop(lambda s: (s[0] != 1) & (s[1] < 20000), step, (start, 0))[1]


def _newton(x: Any) -> Any:
    return lax.fori_loop(0, 50, lambda _, y: 0.5 * (y + x / y), x)


def _fields(ez: Any, hx: Any, hy: Any) -> Any:
    """Steps of Maxwell's equations in two dimensions: each updates most of each field."""

    def step(_: Any, fields: Any) -> Any:
        ez, hx, hy = fields
        hx = hx.at[:, :-1].add(-0.5 * (ez[:, 1:] - ez[:, :-1]))
        hy = hy.at[:-1].add(0.5 * (ez[1:] - ez[:-1]))
        curl = hy[1:-1, 1:-1] - hy[:-2, 1:-1] - hx[1:-1, 1:-1] + hx[1:-1, :-2]
        return ez.at[1:-1, 1:-1].add(0.5 * curl), hx, hy

    return lax.fori_loop(0, 20, step, (ez, hx, hy))


def _scan(x: Any) -> Any:
    def step(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.tanh(carry + row), carry.sum()

    return lax.scan(step, x[0], x)[1]

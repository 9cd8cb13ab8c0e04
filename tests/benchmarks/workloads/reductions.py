"""Whole, by rows, by columns, and what normalisation is made of."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.benchmarks.workloads.workload import Draws, Workload


def workloads() -> dict[str, Workload]:
    """Reductions of a matrix of a million elements."""
    draws = Draws(2)
    x = draws.f32(1024, 1024)
    whole = draws.s32(1000, 1024, 1024)
    image = draws.f32(8, 56, 56, 64)
    return {
        "sum of all": Workload(jnp.sum, (x,)),
        "sum of all bf16": Workload(jnp.sum, (jnp.asarray(x, jnp.bfloat16),)),
        "sum of all s32": Workload(jnp.sum, (whole,)),
        "largest of all": Workload(jnp.max, (x,)),
        "sum of rows": Workload(lambda x: x.sum(1), (x,)),
        "sum of columns": Workload(lambda x: x.sum(0), (x,)),
        "sum of rows f64": Workload(lambda x: x.sum(1), (x.astype(np.float64),)),
        "mean of spatial dimensions": Workload(lambda x: x.mean((1, 2)), (image,)),
        "variance of columns": Workload(lambda x: x.var(0), (x,)),
        "softmax": Workload(jax.nn.softmax, (x,)),
        "log softmax of short rows": Workload(jax.nn.log_softmax, (x.reshape(-1, 16),)),
        "layer norm": Workload(lambda x: jax.nn.standardize(x, axis=-1), (x,)),
        "batch norm of channels": Workload(
            lambda x: (x - x.mean((0, 1, 2))) / jnp.sqrt(x.var((0, 1, 2)) + 1e-5), (image,)
        ),
        "argmax of rows": Workload(lambda x: jnp.argmax(x, 1), (x,)),
        "argmax of columns": Workload(lambda x: jnp.argmax(x, 0), (x,)),
        "all and any": Workload(lambda x: (jnp.all(x > -9, 1), jnp.any(x > 3, 1)), (x,)),
    }

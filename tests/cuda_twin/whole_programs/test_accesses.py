"""Loads and stores of one thread in programs with few results: a GPU has some 200,000 threads."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cuda_twin.lowered import compiled, grids, through_host
from tests.kernels.corpora import lowered_by_jax

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "sums of columns": (lambda x: jnp.sum(x, 0), (1024, 1024)),
    "sums of few columns": (lambda x: jnp.sum(x, 0), (2000, 50)),
    "means of images": (lambda x: jnp.mean(x, 1), (4, 3136, 128)),
    "means of channels first": (lambda x: jnp.mean(x, (0, 2, 3)), (32, 64, 28, 28)),
    "softmax of columns": (lambda x: jax.nn.softmax(x, 0), (4096, 32)),
    "logarithms of sums of columns": (lambda x: jax.nn.logsumexp(x, 0), (512, 64)),
    "sums of every other element": (lambda x: jnp.sum(x[:, ::2], 1), (19, 8077)),
    "sums of products with the reverse": (lambda x: jnp.sum(x[:, ::-1] * x), (3, 3410)),
    "largest of a row": (lambda x: jnp.argmax(x, 1), (8, 100_000)),
    "largest of columns": (lambda x: jnp.argmax(x, 0), (1024, 1024)),
    "largest of few columns": (lambda x: jnp.argmax(x, 0), (100_000, 8)),
}
"""A function of one array of F32, and the sizes of that."""

MAX_ACCESSES = 260
"""Those of two readings and a store of 4096 rows by 32 columns, by the threads of four blocks."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_thread_makes_many_accesses(name: str) -> None:
    function, sizes = PROGRAMS[name]
    code = compiled(lowered_by_jax(function, (np.zeros(sizes, np.float32),)))
    assert through_host(code) == []
    kernels = [grid.kernel for grid in grids(code)]
    assert kernels
    assert max(kernel.work.item.accesses for kernel in kernels) <= MAX_ACCESSES

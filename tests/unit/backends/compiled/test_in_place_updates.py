"""Updates of large arrays that JAX programs make, with reads of the versions between them."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import copied_bytes, imported
from tests.unit.codegen.from_jax import assert_same_as_jax
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.assignment import assign

LAYERS = 12
RANDOM = np.random.default_rng(0)


def drawn(*sizes: int) -> Any:
    return RANDOM.standard_normal(sizes).astype(np.float32)


CACHE, NEW, QUERY = drawn(LAYERS, 1, 2, 64, 32), drawn(LAYERS, 1, 1, 2, 1, 32), drawn(1, 2, 1, 32)
TABLE, ROWS = drawn(256, 4), drawn(LAYERS, 16, 4)
INDICES = RANDOM.integers(0, 256, (LAYERS, 16)).astype(np.int32)
TIME, ZERO = np.int32(5), np.int32(0)


def attention(k: Any, new: Any, q: Any, t: Any) -> Any:
    """Updates of a cache that do not depend on what is computed from it."""
    total = 0.0
    for layer in range(LAYERS):
        k = lax.dynamic_update_slice(k, new[layer], (np.int32(layer), ZERO, ZERO, t, ZERO))
        total = total + jax.nn.softmax(q @ k[layer].swapaxes(-1, -2))
    return k, total


def slices(k: Any, new: Any, t: Any) -> Any:
    """Separate results from slices of each version."""
    read = []
    for layer in range(LAYERS):
        k = lax.dynamic_update_slice(k, new[layer], (np.int32(layer), ZERO, ZERO, t, ZERO))
        read.append(k[layer, 0].max(-1))
    return k, *read


def scatters(table: Any, indices: Any, rows: Any) -> Any:
    """Gathers of each version, all of them written after the scatters."""
    versions = [table]
    for n in range(LAYERS):
        versions.append(versions[-1].at[indices[n]].set(rows[n]))
    total = 0.0
    for n in range(LAYERS):
        total = total + versions[n][indices[-1 - n]].max(0)
    return versions[-1], total


def rows_between(table: Any, indices: Any, rows: Any) -> Any:
    """A sum of rows of all versions, which one loop could compute after the last update."""
    total = 0.0
    for n in range(LAYERS):
        total = total + table[indices[n, 0]] * rows[n, 0]
        table = table.at[indices[n, 1]].set(rows[n, 1])
    return table, total


PROGRAMS = [
    (rows_between, (drawn(1 << 13, 4), INDICES, ROWS)),
    (attention, (CACHE, NEW, QUERY, TIME)),
    (slices, (CACHE, NEW, TIME)),
    (scatters, (TABLE, INDICES, ROWS)),
]


@pytest.mark.parametrize(
    ("function", "arguments"), PROGRAMS, ids=lambda value: getattr(value, "__name__", "")
)
def test_an_array_that_is_updated_many_times_is_copied_once(
    function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    code = compile_module(imported(lower(function, *arguments))).code
    # The argument is the caller's, unless it is donated.
    assert copied_bytes(code, assign(code)) == arguments[0].nbytes
    assert copied_bytes(code, assign(code, frozenset([0]))) == 0


def test_versions_that_are_read_after_updates_have_the_right_elements() -> None:
    assert_same_as_jax(slices, CACHE, NEW, TIME)
    assert_same_as_jax(scatters, TABLE, INDICES, ROWS)

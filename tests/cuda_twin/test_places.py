"""Where the instructions of programs are done: on the device, but for what only the host has."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus.jax_programs import lower
from tests.cuda_twin.lowered import compiled, grids, results_of, through_host
from tests.unit.codegen.compiled import interpreted
from xla_contract.stubs import hlo_pb2
from xla_server.buffers.code import Branch
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule

KEY = np.array([7, 11], np.uint32)

DRAWN: dict[str, tuple[Callable[[Any], Any], int]] = {
    "bits": (lambda key: jax.random.bits(key, (33,)), 1),
    "split": (lambda key: jax.random.split(key, 5), 1),
    "uniform": (lambda key: jax.random.uniform(key, (33,)), 3),
    "normal": (lambda key: jax.random.normal(key, (33,)), 3),
    "categorical": (lambda key: jax.random.categorical(key, jnp.zeros(5), shape=(8,)), 4),
    "bernoulli": (lambda key: jax.random.bernoulli(key, 0.5, (4, 4)), 3),
    "integers": (lambda key: jax.random.randint(key, (33,), 0, 100), 9),
    "permutation": (lambda key: jax.random.permutation(key, 33), 12),
}
"""Draws of JAX by ThreeFry, which it writes as a loop, and how many launches they may take."""


def stated(function: Callable[..., Any], *arguments: Any) -> HloModule:
    return import_module(hlo_pb2.HloModuleProto.FromString(lower(function, *arguments)))


@pytest.mark.parametrize("name", DRAWN)
def test_what_jax_draws_is_drawn_on_the_device(name: str) -> None:
    function, most = DRAWN[name]
    module = stated(function, KEY)
    code = compiled(module)
    assert through_host(code) == []
    assert not any(isinstance(row, Branch) for row in code.rows)
    assert len(grids(code)) <= most
    (ours,), (wanted,) = results_of(module, code, [KEY]), interpreted(module, [KEY])
    if name in ("uniform", "normal"):
        np.testing.assert_allclose(ours, wanted, rtol=1e-6)
    else:
        np.testing.assert_array_equal(ours, wanted)

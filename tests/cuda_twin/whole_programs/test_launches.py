"""Launches of a program on a GPU: kernels, calls of libraries and copies; and its results."""

from typing import Any

import jax
import numpy as np
import pytest

from tests.benchmarks.workloads.models import workloads
from tests.cuda_twin.lowered import compiled, results_of, through_host
from tests.kernels.corpora import lowered_by_jax
from tests.unit.codegen.compiled import interpreted
from xla_server.buffers.code import CopyThunk, KernelThunk

MODELS = workloads()

MAX_LAUNCHES = {"transformer block forward": 11, "MLP train step": 10}
"""Launches that a model may take."""

TOLERANCE = 2e-4
"""Differences of sums in another order, relative to the largest number of a result."""


@pytest.mark.parametrize("name", MAX_LAUNCHES)
def test_models_take_few_launches_and_keep_their_results(name: str) -> None:
    model = MODELS[name]
    module = lowered_by_jax(model.function, model.arguments)
    code = compiled(module)
    assert through_host(code) == []
    launches = [thunk for thunk in code.thunks if isinstance(thunk, KernelThunk | CopyThunk)]
    assert len(launches) <= MAX_LAUNCHES[name]
    arguments: list[Any] = [np.asarray(leaf) for leaf in jax.tree.leaves(model.arguments)]
    expected = interpreted(module, arguments)
    for ours, theirs in zip(results_of(module, code, arguments), expected, strict=True):
        largest = float(np.max(np.abs(theirs)))
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=TOLERANCE * largest)

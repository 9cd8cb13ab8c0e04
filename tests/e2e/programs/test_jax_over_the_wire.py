"""Programs lowered by JAX, sent unchanged to a real server, give jaxlib's numbers."""

from collections.abc import Iterator

import numpy as np
import pytest

import xla_client
from tests.corpus.jax.cases import CASES
from tests.corpus.jax.programs import lower


@pytest.fixture(scope="module")
def client() -> Iterator[xla_client.Client]:
    with xla_client.Local() as client:
        yield client


@pytest.mark.parametrize(
    "name", ["mlp_train_step", "cnn_train_step", "while_loop", "sort", "random_bits"]
)
def test_gives_jaxlib_s_numbers(client: xla_client.Client, name: str) -> None:
    import jax

    function, arguments = CASES[name]()
    computation = xla_client.Computation.from_serialized(lower(function, *arguments))
    result = client.compile(computation).run(
        *(np.asarray(leaf) for leaf in jax.tree.leaves(arguments))
    )
    found = result if isinstance(result, tuple) else (result,)
    for ours, theirs in zip(found, jax.tree.leaves(jax.jit(function)(*arguments)), strict=True):
        np.testing.assert_allclose(ours, np.asarray(theirs), rtol=2e-5, atol=2e-6)


def test_a_training_loop_keeps_its_state_on_the_server(client: xla_client.Client) -> None:
    import jax

    step, (parameters, images, labels) = CASES["mlp_train_step"]()
    remote, local = client.jit(step, donate_argnums=0), jax.jit(step)
    ours, theirs, last = parameters, parameters, None
    data = [client.to_device(images), client.to_device(labels)]
    losses = []
    for _ in range(25):
        last = ours
        loss, ours = remote(ours, *data)
        expected, theirs = local(theirs, images, labels)
        losses.append(float(loss))
        assert losses[-1] == pytest.approx(float(expected), rel=1e-4)
    assert losses[-1] < losses[0]
    assert all(buffer.is_deleted for buffer in jax.tree.leaves(last))
    for found, wanted in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-3, atol=1e-5)
    assert jax.tree.structure(ours) == jax.tree.structure(theirs)

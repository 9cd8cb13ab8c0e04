"""Programs as JAX lowers them, with every value checked, against jaxlib's numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.corpus.jax.cases import CASES, Case
from tests.corpus.jax.programs import lower
from xla_contract.stubs import hlo_pb2
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module
from xla_server.ir.verifier import verify

Step = Callable[..., Any]


def mlp() -> Case:
    """One step of gradient descent on a classifier with two layers."""
    import jax
    import jax.numpy as jnp

    def loss(parameters: Any, images: Any, labels: Any) -> Any:
        (w1, b1), (w2, b2) = parameters
        logits = jax.nn.relu(images @ w1 + b1) @ w2 + b2
        wanted = jax.nn.one_hot(labels, 4)
        return -jnp.mean(jnp.sum(wanted * jax.nn.log_softmax(logits), axis=1))

    def step(parameters: Any, images: Any, labels: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(parameters, images, labels)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, parameters, slopes)

    random = np.random.default_rng(1)
    parameters = (
        (normal(random, 8, 16), normal(random, 16)),
        (normal(random, 16, 4), normal(random, 4)),
    )
    return step, (parameters, normal(random, 6, 8), np.array([0, 1, 2, 3, 0, 1], np.int32))


def cnn() -> Case:
    """Loss and slopes of convolution, relu, max pooling, a dense layer and cross entropy."""
    import jax
    import jax.numpy as jnp

    def loss(parameters: Any, images: Any, labels: Any) -> Any:
        kernel, dense, bias = parameters
        x = jax.lax.conv_general_dilated(
            images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.nn.relu(x)
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        logits = x.reshape(x.shape[0], -1) @ dense + bias
        wanted = jax.nn.one_hot(labels, 3)
        return -jnp.mean(jnp.sum(wanted * jax.nn.log_softmax(logits), axis=1))

    random = np.random.default_rng(2)
    parameters = (normal(random, 3, 3, 2, 4), normal(random, 64, 3), normal(random, 3))
    return jax.value_and_grad(loss), (
        parameters,
        normal(random, 5, 8, 8, 2),
        np.array([0, 1, 2, 0, 1], np.int32),
    )


def normal(random: np.random.Generator, *sizes: int) -> Any:
    return random.standard_normal(sizes).astype(np.float32)


OFFERED = (
    "batch_norm",
    "cond",
    "convolution",
    "converts",
    "cumulative",
    "dot",
    "dot_highest",
    "elementwise",
    "gather",
    "random_bits",
    "random_threefry",
    "reduce",
    "reduce_window",
    "scatter",
    "slices",
    "sort",
    "while_loop",
    "scan",
    "mlp_train_step",
    "cnn_train_step",
)
PROGRAMS: dict[str, Callable[[], Case]] = {
    "mlp": mlp,
    "cnn": cnn,
    **{f"corpus_{name}": CASES[name] for name in OFFERED},
}


def outputs_of(proto: hlo_pb2.HloModuleProto, arguments: list[Any]) -> list[Any]:
    module = import_module(proto)
    verify(module)
    result = evaluate(module, arguments, check_values=True)
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("name", PROGRAMS)
def test_gives_jaxlib_s_numbers(name: str) -> None:
    import jax

    function, arguments = PROGRAMS[name]()
    # Arguments that the function does not use are no parameters of the lowered program.
    proto = hlo_pb2.HloModuleProto.FromString(lower(function, *arguments))
    flat = [np.asarray(leaf) for leaf in jax.tree.leaves(arguments)]
    wanted = jax.tree.leaves(jax.jit(function)(*arguments))
    for form in (proto, export_module(import_module(proto))):
        found = outputs_of(form, flat)
        for ours, theirs in zip(found, wanted, strict=True):
            expected = np.asarray(theirs)
            assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(
                ours.astype(np.float64), expected.astype(np.float64), rtol=2e-5, atol=2e-6
            )

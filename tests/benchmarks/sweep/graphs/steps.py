"""Steps of random graphs that compute: elementwise functions, reductions, normalisations."""

import math

from tests.benchmarks.sweep.draw import Draw
from tests.benchmarks.sweep.graphs.graph import Graph, Made, broadcast

UNARY = (
    "jnp.exp(-jnp.abs({0}))",
    "jnp.tanh({0})",
    "jnp.sin({0})",
    "jnp.cos({0})",
    "jnp.sqrt(jnp.abs({0}))",
    "jnp.log1p(jnp.abs({0}))",
    "{0} * 0.5 + 0.25",
    "{0} * {0}",
    "-{0}",
    "jnp.abs({0})",
    "jnp.floor({0})",
    "jnp.sign({0})",
    "1 / (1 + {0} * {0})",
    "jax.nn.sigmoid({0})",
    "jax.nn.relu({0})",
    "jax.nn.gelu({0})",
    "jnp.where({0} > 0, {0}, 0.1 * {0})",
    "jnp.clip({0}, -1, 1)",
    "lax.rsqrt(1 + jnp.abs({0}))",
    "jnp.round({0} * 4) / 4",
)
BINARY = (
    "{0} + {1}",
    "{0} - {1}",
    "{0} * {1}",
    "{0} * 0.5 + {1}",
    "jnp.maximum({0}, {1})",
    "jnp.minimum({0}, {1})",
    "{0} / (1 + jnp.abs({1}))",
    "jnp.where({0} < {1}, {0}, 2 * {1})",
    "jnp.where({1} > 0, {0}, {1})",
    "jnp.hypot({0}, {1})",
    "jnp.arctan2({0}, 1 + jnp.abs({1}))",
    "jnp.exp(-jnp.abs({0})) * {1}",
)
REDUCTIONS = (
    *("jnp.sum({0}, {1})",) * 3,
    *("jnp.mean({0}, {1})",) * 3,
    *("jnp.max({0}, {1})",) * 2,
    "jnp.min({0}, {1})",
    "jnp.var({0}, {1})",
    "jnp.std({0}, {1})",
    "jnp.sqrt(jnp.sum({0} * {0}, {1}))",
    "jnp.mean(jnp.abs({0}), {1})",
    "jax.nn.logsumexp({0}, {1})",
)
NORMALISATIONS = (
    "jax.nn.softmax({0}, {1})",
    "jax.nn.log_softmax({0}, {1})",
    "{0} - jnp.mean({0}, {1}, keepdims=True)",
    "{0} - jnp.max({0}, {1}, keepdims=True)",
    "{0} / (1 + jnp.sqrt(jnp.sum({0} * {0}, {1}, keepdims=True)))",
    "{0} / (1 + jnp.sum(jnp.abs({0}), {1}, keepdims=True))",
    "{0} * lax.rsqrt(jnp.mean({0} * {0}, {1}, keepdims=True) + 1)",
    "({0} - jnp.mean({0}, {1}, keepdims=True)) * lax.rsqrt(jnp.var({0}, {1}, keepdims=True) + 1)",
)


def unary(draw: Draw, graph: Graph) -> Made:
    """Draw an elementwise function of one value."""
    value = graph.value()
    return value and (draw.choice(*UNARY).format(value.name), value.shape)


def binary(draw: Draw, graph: Graph) -> Made:
    """Draw an elementwise function of two values that broadcast against each other."""
    one = graph.value()
    assert one is not None
    fitting = [
        (other, shape)
        for other in graph.values
        if (shape := broadcast(one.shape, other.shape)) is not None
        and math.prod(shape) <= graph.limit
    ]
    other, shape = draw.choice(*fitting)
    if draw.chance(0.4):
        # An operand of another shape, or from further back, lets row and column values meet
        # matrices.
        different = [pair for pair in fitting if pair[0].shape != one.shape]
        if different:
            other, shape = draw.choice(*different)
    names = (one.name, other.name) if draw.chance(0.5) else (other.name, one.name)
    return draw.choice(*BINARY).format(*names), shape


def reduction(draw: Draw, graph: Graph) -> Made:
    """Draw a reduction over one axis or all, with or without its dimension kept."""
    value = graph.value(ranks=(1, 2, 3))
    assert value is not None
    text = draw.choice(*REDUCTIONS)
    if draw.chance(0.12):
        return text.format(value.name, "None"), ()
    axis = draw.integer(0, len(value.shape) - 1)
    shape = list(value.shape)
    if draw.chance(0.5):
        shape[axis] = 1
        return text.format(value.name, f"{axis}, keepdims=True"), tuple(shape)
    del shape[axis]
    return text.format(value.name, str(axis)), tuple(shape)


def normalisation(draw: Draw, graph: Graph) -> Made:
    """Draw a softmax, a norm or the like over one axis."""
    value = graph.value(ranks=(1, 2, 3))
    assert value is not None
    axis = draw.integer(0, len(value.shape) - 1)
    return draw.choice(*NORMALISATIONS).format(value.name, axis), value.shape

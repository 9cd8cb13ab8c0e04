"""Whole models, small: one step each."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.benchmarks.workloads.workload import Draws, Workload

_NUMBERS = ("NHWC", "HWIO", "NHWC")
_HEADS = 4


def workloads() -> dict[str, Workload]:
    """Forward passes, and steps of training."""
    draws = Draws(9)
    return {
        "MLP train step": Workload(_mlp_step, _mlp(draws)),
        "ResNet-18-like forward": Workload(_residual_network, _residual(draws)),
        "transformer block forward": Workload(_block, _transformer(draws)),
        "transformer block train step": Workload(_block_step, _transformer(draws)),
        "LSTM": Workload(_lstm, _recurrent(draws)),
        "GPT-2-like decode step": Workload(_decode, _decoder(draws)),
    }


def _mlp(draws: Draws) -> tuple[Any, ...]:
    sizes = (256, 512, 512, 64)
    pairs = itertools.pairwise(sizes)
    weights = tuple(draws.f32(*pair, scale=0.05) for pair in pairs)
    biases = tuple(np.zeros(size, np.float32) for size in sizes[1:])
    return (weights, biases, draws.f32(128, 256), draws.s32(64, 128))


def _mlp_step(weights: Any, biases: Any, x: Any, labels: Any) -> Any:
    def loss(parameters: Any) -> Any:
        y = x
        for number, (weight, bias) in enumerate(zip(*parameters, strict=True)):
            y = y @ weight + bias
            y = jax.nn.relu(y) if number < 2 else y
        picked = jnp.take_along_axis(jax.nn.log_softmax(y), labels[:, None], 1)
        return -picked.mean()

    value, slopes = jax.value_and_grad(loss)((weights, biases))
    moved = jax.tree.map(lambda w, g: w - 0.1 * g, (weights, biases), slopes)
    return value, moved


def _residual(draws: Draws) -> tuple[Any, ...]:
    widths = (16, 16, 32, 64, 128)
    stem = draws.f32(7, 7, 3, 16, scale=0.1)
    blocks = []
    for before, width in itertools.pairwise(widths):
        for inputs in (before, width):
            first = draws.f32(3, 3, inputs, width, scale=0.08)
            second = draws.f32(3, 3, width, width, scale=0.08)
            short = draws.f32(1, 1, inputs, width, scale=0.2)
            blocks.append((first, second, short))
    return (stem, tuple(blocks), draws.f32(128, 100, scale=0.1), draws.f32(2, 96, 96, 3))


def _residual_network(stem: Any, blocks: Any, last: Any, x: Any) -> Any:
    def convolve(x: Any, kernel: Any, stride: int = 1) -> Any:
        return lax.conv_general_dilated(
            x, kernel, (stride, stride), "SAME", dimension_numbers=_NUMBERS
        )

    def norm(x: Any) -> Any:
        return (x - x.mean((0, 1, 2))) * lax.rsqrt(x.var((0, 1, 2)) + 1e-5)

    x = jax.nn.relu(norm(convolve(x, stem, 2)))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for number, (first, second, short) in enumerate(blocks):
        stride = 2 if number % 2 == 0 and number else 1
        y = jax.nn.relu(norm(convolve(x, first, stride)))
        y = norm(convolve(y, second))
        x = jax.nn.relu(y + convolve(x, short, stride))
    return x.mean((1, 2)) @ last


def _transformer(draws: Draws) -> tuple[Any, ...]:
    width = 128
    shapes = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width)}
    shapes["down"] = (4 * width, width)
    weights = {name: draws.f32(*shape, scale=0.05) for name, shape in shapes.items()}
    return (weights, draws.f32(4, 64, width))


def _norm(x: Any) -> Any:
    return jax.nn.standardize(x, axis=-1)


def _heads(x: Any) -> Any:
    batch, length, width = x.shape
    return x.reshape(batch, length, _HEADS, width // _HEADS).transpose(0, 2, 1, 3)


def _block(weights: Any, x: Any) -> Any:
    batch, length, width = x.shape
    q, k, v = map(_heads, jnp.split(_norm(x) @ weights["qkv"], 3, -1))
    scores = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(width // _HEADS))
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
    mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)
    x = x + mixed @ weights["out"]
    return x + jax.nn.gelu(_norm(x) @ weights["up"]) @ weights["down"]


def _block_step(weights: Any, x: Any) -> Any:
    value, slopes = jax.value_and_grad(lambda w: jnp.mean(_block(w, x) ** 2))(weights)
    return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, slopes)


def _recurrent(draws: Draws) -> tuple[Any, ...]:
    size = 128
    return (draws.f32(2 * size, 4 * size, scale=0.05), draws.f32(64, 16, size))


def _lstm(weights: Any, x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        hidden, cell = state
        gates = jnp.split(jnp.concatenate([row, hidden], 1) @ weights, 4, 1)
        forget, into, out = map(jax.nn.sigmoid, gates[:3])
        cell = forget * cell + into * jnp.tanh(gates[3])
        hidden = out * jnp.tanh(cell)
        return (hidden, cell), hidden

    start = jnp.zeros_like(x[0])
    return lax.scan(step, (start, start), x)[1]


def _decoder(draws: Draws) -> tuple[Any, ...]:
    width, layers, words, length = 256, 4, 4096, 128
    per_layer = {
        "qkv": draws.f32(layers, width, 3 * width, scale=0.03),
        "out": draws.f32(layers, width, width, scale=0.03),
        "up": draws.f32(layers, width, 4 * width, scale=0.03),
        "down": draws.f32(layers, 4 * width, width, scale=0.03),
    }
    keys = draws.f32(layers, 8, length, width // 8)
    values = draws.f32(layers, 8, length, width // 8)
    table = draws.f32(words, width, scale=0.1)
    return (per_layer, table, keys, values, np.int32(17), np.int32(100))


def _decode(weights: Any, table: Any, keys: Any, values: Any, token: Any, position: Any) -> Any:
    def layer(x: Any, given: Any) -> Any:
        own, past_keys, past_values = given
        q, k, v = jnp.split(_norm(x) @ own["qkv"], 3)
        q, k, v = (part.reshape(8, -1) for part in (q, k, v))
        past_keys = lax.dynamic_update_slice(past_keys, k[:, None], (0, position, 0))
        past_values = lax.dynamic_update_slice(past_values, v[:, None], (0, position, 0))
        scores = jnp.einsum("hd,hld->hl", q, past_keys) / np.float32(np.sqrt(q.shape[1]))
        seen = jnp.arange(scores.shape[1]) <= position
        share = jax.nn.softmax(jnp.where(seen, scores, -1e9))
        x = x + jnp.einsum("hl,hld->hd", share, past_values).reshape(-1) @ own["out"]
        x = x + jax.nn.gelu(_norm(x) @ own["up"]) @ own["down"]
        return x, (past_keys, past_values)

    x, kept = lax.scan(layer, table[token], (weights, keys, values))
    return _norm(x) @ table.T, kept

"""Where functions are measured: every number there is, or samples of every exponent."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.ulps.errors import PLACES
from tests.ulps.functions import BINARY, DTYPE

Array = Any
CHUNK = 1 << 20
"""Numbers measured together."""


def special_values(name: str) -> Array:
    """Zeros, infinities, NaN, the borders of the format and small whole and half numbers."""
    fraction, smallest = PLACES[name]
    tiny, step = 2.0**smallest, 2.0**-fraction
    positive = [
        *(0, np.inf, np.nan, 0.5, 1, 1.5, 2, 3, 4, 5, 8, 27, 100, 2.0**23, 2.0**53, 1e30),
        *((2 - step) * 2.0 ** (1 - smallest), tiny, tiny * step, 1 - step / 2, 1 + step),
    ]
    with np.errstate(over="ignore"):
        values = np.array(positive, np.float64).astype(DTYPE[name])
    return np.concatenate([values, -values])


def sample(name: str, count: int, seed: int) -> Array:
    """Numbers of every exponent, and more of those where functions are not trivial."""
    generator = np.random.default_rng(seed)
    dtype, whole = DTYPE[name], np.uint32 if name == "f32" else np.uint64
    bits = generator.integers(0, np.iinfo(whole).max, count // 2, whole, endpoint=True)
    spread = generator.standard_normal(count // 4) * np.exp(generator.normal(0, 2, count // 4))
    near_one = generator.uniform(-1.2, 1.2, count // 8)
    steep = generator.uniform(-760, 760, count // 8) * (1 if name == "f64" else 0.15)
    drawn = np.concatenate([spread, near_one, steep]).astype(dtype)
    return np.concatenate([bits.view(dtype), drawn, special_values(name)])


def pairs(function: str, name: str, count: int, seed: int) -> list[Array]:
    """Samples for both operands, such that results are finite often."""
    x = sample(name, count, seed)
    generator = np.random.default_rng(seed + 1)
    y = generator.permutation(sample(name, count, seed + 2))
    near = generator.random(x.size) < 0.5
    with np.errstate(all="ignore"):
        if function != "pow":
            close = x * np.exp(generator.normal(0, 1, x.size))
            return [x, np.where(near, close, y).astype(x.dtype)]
        reach = 760 if name == "f64" else 110
        target = generator.uniform(-reach, reach, x.size) / np.log(np.abs(x.astype(np.float64)))
        y = np.where(near, target, y).astype(x.dtype)
        y = np.where(generator.random(x.size) < 0.1, np.round(y), y)
    return [np.where(generator.random(x.size) < 0.6, np.abs(x), x), y]


def operands_of(function: str, name: str, count: int, seed: int) -> list[Array]:
    """Samples for every operand of a function of f32 or f64."""
    if function in BINARY:
        return pairs(function, name, count, seed)
    return [sample(name, count, seed)]


def narrow(name: str) -> Array:
    """Every number of a type of 16 bits."""
    return np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(DTYPE[name])


def slice_of_all(start: int, size: int, step: int) -> Array:
    """The f32 of `size` bit patterns from `start`: one of each `step`, not always the same."""
    if step == 1:
        return (np.arange(size, dtype=np.uint32) + np.uint32(start)).view(np.float32)
    bits = start + step * np.arange(size, dtype=np.int64)
    bits += (bits // step) * 10007 % step
    return bits.astype(np.uint32).view(np.float32)


def chunks(
    function: str, name: str, count: int, start: int = 0
) -> Iterator[tuple[int, list[Array]]]:
    """Operands in chunks, each with the number of results measured when it is done.

    `count` is how many; `start` how many need not be measured again. All f32 are taken one by one
    where `count` is as many as there are.
    """
    if name in ("f16", "bf16"):
        if not start:
            yield 1 << 16, _narrow_operands(function, name)
        return
    is_swept = name == "f32" and function not in BINARY
    for done in range(start, count, CHUNK):
        size = min(CHUNK, count - done)
        if is_swept:
            step = (1 << 32) // count
            yield done + size, [slice_of_all(done * step, size, step)]
        else:
            yield done + size, operands_of(function, name, size, 3 * done)


def _narrow_operands(function: str, name: str) -> list[Array]:
    values = narrow(name)
    if function not in BINARY:
        return [values]
    generator = np.random.default_rng(5)
    return [values, generator.permutation(values)]

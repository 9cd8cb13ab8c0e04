"""ThreeFry 2x32 and Philox 4x32: random words as a function of a key and a counter.

Semantics: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), with 20 and 10
rounds.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from xla_contract.ops.random.rng_bit_generator import THREE_FRY_PARITY, THREE_FRY_ROTATIONS

Words = NDArray[np.uint32]
Counters = NDArray[np.uint64]

WEYL = (0x9E3779B9, 0xBB67AE85)
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
"""Philox 4x32: increments of the two keys and multipliers of the words, by round."""

_LOW_WORD = np.uint64(0xFFFFFFFF)
_WORD = np.uint64(32)
_BLOCK = 1 << 14
"""Counters that are taken together: their words stay in the cache."""


def three_fry(key: int, counter: int, count: int, check: Callable[[], None]) -> Words:
    """Two words, [count, 2], for each of the 64-bit counters from `counter` on.

    `check` is called now and then and may raise.
    """

    def block(first: int, counters: Counters, out: Words) -> None:
        counters += np.uint64((counter + first) % 2**64)
        _three_fry_block(key, counters, out)

    return _by_blocks(block, count, 2, check)


def philox(key: int, counter: int, count: int, check: Callable[[], None]) -> Words:
    """Four words, [count, 4], for each of the 128-bit counters from `counter` on.

    `check` is called now and then and may raise.
    """

    def block(first: int, counters: Counters, out: Words) -> None:
        high, low = divmod((counter + first) % 2**128, 2**64)
        counters += np.uint64(low)
        highs = np.where(counters < low, (high + 1) % 2**64, high).astype(np.uint64)
        _philox_block(key, counters, highs, out)

    return _by_blocks(block, count, 4, check)


def _by_blocks(
    fill: Callable[[int, Counters, Words], None],
    count: int,
    width: int,
    check: Callable[[], None],
) -> Words:
    """Any number of words, made in blocks that stay in the cache."""
    words = np.empty((count, width), np.uint32)
    for first in range(0, count, _BLOCK):
        check()
        out = words[first : first + _BLOCK]
        fill(first, np.arange(len(out), dtype=np.uint64), out)
    return words


def _three_fry_block(key: int, counters: Counters, out: Words) -> None:
    low, high = np.uint32(key % 2**32), np.uint32(key >> 32)
    keys = (low, high, np.uint32(THREE_FRY_PARITY) ^ low ^ high)
    x = (counters & _LOW_WORD).astype(np.uint32)
    y = (counters >> _WORD).astype(np.uint32)
    x += keys[0]
    y += keys[1]
    for injection in range(5):
        for rotation in THREE_FRY_ROTATIONS[injection % 2]:
            x += y
            y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
            y ^= x
        x += keys[(injection + 1) % 3]
        y += keys[(injection + 2) % 3]
        y += np.uint32(injection + 1)
    out[:, 0], out[:, 1] = x, y


def _philox_block(key: int, lows: Counters, highs: Counters, out: Words) -> None:
    # Each of the four words has 64 bits, as a product of two words needs.
    a, b = lows & _LOW_WORD, lows >> _WORD
    c, d = highs & _LOW_WORD, highs >> _WORD
    keys = [key % 2**32, key >> 32]
    for round_number in range(10):
        first, second = (np.uint64((keys[n] + round_number * WEYL[n]) % 2**32) for n in (0, 1))
        left, right = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, c = (right >> _WORD) ^ b ^ first, (left >> _WORD) ^ d ^ second
        b, d = right & _LOW_WORD, left & _LOW_WORD
    out[:, 0], out[:, 1], out[:, 2], out[:, 3] = a, b, c, d

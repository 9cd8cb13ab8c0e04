"""rng-bit-generator: which counters are drawn for a shape, and where their words go.

Semantics: XLA's RngBitGeneratorExpander, bit for bit.
"""

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_contract.ops.random import rng_bit_generator
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.numerics.counter_generators import Words, philox, three_fry


def evaluate_rng_bit_generator(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """The state moved on, if asked for, and the bits, the low ones in types under 32 bits."""
    attributes: rng_bit_generator.RngBitGeneratorAttributes = instruction.attributes
    state = [int(word) for word in cast(Array, operands[0])]
    element, sizes = attributes.shape.element_type, attributes.shape.dimensions
    wide = element.bit_width == 64
    if attributes.algorithm is rng_bit_generator.RandomAlgorithm.THREE_FRY:
        state, bits = _three_fry(state, sizes, wide, frame)
    else:
        state, bits = philox_bits(state, sizes, wide, frame)
    narrowed = bits.astype(rng_bit_generator.UNSIGNED_OF_WIDTH[element.bit_width].dtype, copy=False)
    drawn = narrowed.view(element.dtype)
    return (np.array(state, np.uint64), drawn) if attributes.has_state else drawn


def _three_fry(
    state: list[int], sizes: tuple[int, ...], wide: bool, frame: Frame
) -> tuple[list[int], Array]:
    """A counter gives 64 bits, or two elements that are neighbours along one dimension."""
    key, counter = state
    if wide or not sizes:
        count, split = math.prod(sizes), 0
    else:
        split = split_dimension(sizes)
        halves = list(sizes)
        halves[split] = -(-sizes[split] // 2)
        count = math.prod(halves)
    words = three_fry(key, counter, count, frame.check_cancelled)
    moved = [key, (counter + count) % 2**64]
    if wide:
        return moved, _joined(words).reshape(sizes)
    if not sizes:
        return moved, words[0, :1].reshape(())
    pairs = np.moveaxis(words.reshape(*halves, 2), -1, split + 1)
    halves[split] *= 2
    whole = pairs.reshape(halves)
    return moved, whole[(slice(None),) * split + (slice(sizes[split]),)]


def split_dimension(sizes: tuple[int, ...]) -> int:
    """The first even dimension, or the first of the largest where all are odd."""
    even = (number for number, size in enumerate(sizes) if size % 2 == 0)
    return next(even, sizes.index(max(sizes)))


def philox_bits(
    state: list[int], sizes: tuple[int, ...], wide: bool, frame: Frame
) -> tuple[list[int], Array]:
    """The state after words of these sizes, of 64 bits where they are `wide`, and the words.

    A counter gives 128 bits, for elements in row-major order; what is left over is lost.
    """
    key, count = state[0], math.prod(sizes)
    # Without a third word the key is the counter's upper half too, and does not move.
    low, high = state[1:] if len(state) == 3 else (state[1], key)
    counter = high << 64 | low
    blocks = -(-count // 2) if wide else -(-count // 4)
    words = philox(key, counter, blocks, frame.check_cancelled)
    moved = counter + blocks
    after = [key, moved % 2**64, (moved >> 64) % 2**64][: len(state)]
    bits = _joined(words.reshape(-1, 2)) if wide else words.reshape(-1)
    return after, bits[:count].reshape(sizes)


def _joined(words: Words) -> Array:
    """Pairs of words as 64-bit numbers, the low word first."""
    pairs = words.astype(np.uint64)
    return pairs[:, 1] << np.uint64(32) | pairs[:, 0]

"""Lowering of rng-bit-generator for a GPU: a thread draws at one counter.

Semantics: xla_server.ops.random.rng_bit_generator, bit for bit. Work: one drawing for two to four
words.
"""

import math
from collections.abc import Sequence

from xla_contract.ops.random.rng_bit_generator import RandomAlgorithm, RngBitGeneratorAttributes
from xla_contract.types.element_type import ElementType
from xla_server.buffers.code import KernelThunk
from xla_server.buffers.code import Value as Array
from xla_server.codegen.gpu.lower.thunks.thread_thunks import thread_thunk
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower import random
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.lower.random import RandomKernel, upper_word
from xla_server.ir.module import HloInstruction
from xla_server.ops.random.rng_bit_generator import split_dimension


def lower_rng_bit_generator(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add one kernel for the bits, whose first thread also advances the state."""
    return random.lower_rng_bit_generator(lowering, i, _by_threads)


def _by_threads(
    name: str, attributes: RngBitGeneratorAttributes, words: int, arguments: Sequence[Array]
) -> KernelThunk:
    element, sizes = attributes.shape.element_type, attributes.shape.dimensions
    if attributes.algorithm is not RandomAlgorithm.THREE_FRY:
        kernel = _philox(element, math.prod(sizes), words)
    elif element.bit_width == 64 or not sizes:
        kernel = _three_fry_alone(element, math.prod(sizes))
    else:
        kernel = _three_fry_pairs(element, sizes)
    return thread_thunk(name, kernel, arguments)


def _three_fry_alone(element: ElementType, count: int) -> Kernel:
    """Draw one number, of 64 bits unless it is the only one, in each thread."""
    r = RandomKernel(element, count, 2, is_range=False)
    r.store(r.body, r.body.axis, r.three_fry(r.body, r.body.axis))
    return r.kernel()


def _three_fry_pairs(element: ElementType, sizes: Sequence[int]) -> Kernel:
    """Draw two neighbours along a dimension in each thread; the last of an odd size is alone."""
    split = split_dimension(tuple(sizes))
    size, inner = sizes[split], math.prod(sizes[split + 1 :])
    half = -(-size // 2)
    counters = math.prod(sizes) // size * half
    r = RandomKernel(element, counters, 2, is_range=False)
    body, counter = r.body, ir.Index(0, ((r.body.axis, 1),))
    row = ir.Index(0, ((body.let("row", ir.Quotient(counter, inner)), 1),))
    pair = body.let("pair", ir.Remainder(row, half))
    terms = (
        (ir.Quotient(row, half), size * inner),
        (pair, 2 * inner),
        (ir.Remainder(counter, inner), 1),
    )
    first = body.let("first", ir.Index(0, terms))
    words = r.three_fry(body, body.axis)
    r.store(body, first, words)

    def store_second(inside: Body) -> None:
        r.store(inside, ir.Index(inner, ((first, 1),)), upper_word(words))

    if size % 2 == 0:
        store_second(body)
    else:
        with Branch(body, ir.condition("ne", pair, half - 1)) as branch:
            store_second(branch)
    return r.kernel()


def _philox(element: ElementType, count: int, words: int) -> Kernel:
    """Draw four words in each thread, for two elements of 64 bits or four narrower ones."""
    wide = element.bit_width == 64
    each = 2 if wide else 4
    counters, whole = -(-count // each), count // each
    r = RandomKernel(element, counters, words, is_range=False)
    body = r.body
    pair = r.philox(body, body.axis)
    drawn = pair if wide else [half for word in pair for half in (word, upper_word(word))]

    def store(inside: Body, count: int) -> None:
        for number, word in enumerate(drawn[:count]):
            r.store(inside, ir.Index(number, ((body.axis, each),)), word)

    if whole == counters:
        store(body, each)
    else:
        with Branch(body, ir.condition("lt", body.axis, whole)) as branch:
            store(branch, each)
            store(branch.orelse, count % each)
    return r.kernel()

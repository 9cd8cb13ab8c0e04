"""Lowering of rng-bit-generator: a loop over counters, each of which yields a few elements.

xla_server.ops.random.rng_bit_generator defines the counters of a shape.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from xla_contract.ops.random.rng_bit_generator import RandomAlgorithm, RngBitGeneratorAttributes
from xla_contract.types.element_type import ElementType
from xla_server.buffers.code import KernelThunk
from xla_server.buffers.code import Value as Array
from xla_server.codegen.instructions.random_words import PHILOX
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.analysis.counts import THREE_FRY
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop, Names, Repeat
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.ir.module import HloInstruction
from xla_server.ops.random.rng_bit_generator import split_dimension

STATE, AFTER = ir.Buffer(0, ir.Usage.READ), ir.Buffer(1, ir.Usage.WRITE)
BITS = ir.Buffer(2, ir.Usage.WRITE)


Build: TypeAlias = Callable[[str, RngBitGeneratorAttributes, int, Sequence[Array]], KernelThunk]
"""Builds the thunk from its name, the attributes, the number of words of the state, and its
arguments: the state, the next state and the bits."""


def _in_ranges(
    name: str, attributes: RngBitGeneratorAttributes, words: int, arguments: Sequence[Array]
) -> KernelThunk:
    element, sizes = attributes.shape.element_type, attributes.shape.dimensions
    if attributes.algorithm is RandomAlgorithm.THREE_FRY:
        kernel = _three_fry(element, sizes)
    else:
        kernel = _philox(element, math.prod(sizes), words)
    return kernel_thunk(name, kernel, arguments)


def lower_rng_bit_generator(
    lowering: Lowering, i: HloInstruction, build: Build = _in_ranges
) -> Tree:
    """Add one kernel for the bits, which also advances the state."""
    attributes: RngBitGeneratorAttributes = i.attributes
    state = lowering.array(i.operands[0])
    form = i.operands[0].shape
    after = lowering.new(form, f"{i.name}.state")
    bits = lowering.new(attributes.shape, f"{i.name}.bits")
    if attributes.shape.element_count:
        lowering.add(build(i.name, attributes, form.dimensions[0], (state, after, bits)))
    else:
        lowering.copy(after, state)
    return (after, bits) if attributes.has_state else bits


class RandomKernel:
    """Builder of a kernel, each call of which draws at a range of the counters.

    Without `is_range` a work item draws at the counter of its number. The one of the first counter
    also stores the next state.
    """

    def __init__(
        self, element: ElementType, counters: int, words: int, *, is_range: bool = True
    ) -> None:
        """`words` are those of the state."""
        self._element = element
        self._names, self._top = Names(), Body()
        names = ("key", "base", "high")[:words]
        loads = [ir.Load(STATE, Type.U64, ir.Index(n)) for n in range(words)]
        known = [self._top.let(*each) for each in zip(names, loads, strict=True)]
        # Without a third word the key is also the counter's upper half, and does not advance.
        self.key, self._base, self._high = *known[:2], known[-1 if words == 3 else 0]
        self.body = Items(self._top, counters, None if is_range else "t")
        end = self.later(ir.Index(counters))
        state = self.key, end, self.carried(end)
        drawn = ir.START if is_range else self.body.axis
        with Branch(self.body, ir.condition("eq", drawn, 0), 1 / counters) as first:
            for number, word in enumerate(state[:words]):
                first.store(AFTER, "u64", ir.Index(number), word)

    def kernel(self) -> Kernel:
        """Return the kernel."""
        self.body.close()
        return Kernel((STATE, AFTER, BITS), (), tuple(self._top.statements))

    def counters(self, outside: Body, low: ir.Expression, high: ir.Expression) -> Loop:
        """Return a loop over counters, of which a work item is one."""
        return Loop(outside, self._names("c"), high, low, iterations=1)

    def later(self, counter: ir.Expression) -> ir.Apply:
        """Return the lower half of counter number `counter`, from 0 for the state's."""
        return ir.Apply("add", (self._base, ir.Apply("to_u64", (counter,), Type.U64)), Type.U64)

    def carried(self, low: ir.Expression) -> ir.Apply:
        """Return the upper half of the counter with this lower half."""
        is_over = ir.condition("lt", low, self._base)
        return ir.Apply("add", (self._high, ir.Apply("to_u64", (is_over,), Type.U64)), Type.U64)

    def three_fry(self, body: Body, counter: ir.Expression) -> ir.Value:
        """Draw two words in one."""
        drawn = ir.Apply(THREE_FRY, (self.key, self.later(counter)), Type.U64)
        return body.let(self._names("v"), drawn)

    def philox(self, body: Body, counter: ir.Expression) -> tuple[ir.Value, ir.Value]:
        """Draw four words in two."""
        low = body.let(self._names("v"), self.later(counter))
        pair = ir.Value(self._names("v"), Type.U64), ir.Value(self._names("v"), Type.U64)
        body.call(PHILOX, {"key": self.key, "low": low, "high": self.carried(low)}, pair)
        return pair

    def store(self, body: Body, index: ir.Expression, word: ir.Expression) -> None:
        """Store the low bits of a word as an element."""
        storage = Type(f"u{8 * self._element.byte_width}")
        bits = ir.Apply(f"to_{storage}", (word,), storage)
        if self._element.bit_width < 8:
            mask = ir.Const(storage, (2**self._element.bit_width - 1,))
            bits = ir.Apply("bit_and", (bits, mask), storage)
        body.store(BITS, storage, index, bits)

    def store_pair(self, loop: Loop, first: ir.Index, second: ir.Index | None) -> None:
        """Draw two words at a loop's counter and store those that have an index."""
        pair = self.three_fry(loop, loop.axis)
        self.store(loop, first, pair)
        if second is not None:
            self.store(loop, second, upper_word(pair))


def _three_fry(element: ElementType, sizes: Sequence[int]) -> Kernel:
    count = math.prod(sizes)
    wide = element.bit_width == 64
    split = 0 if wide or not sizes else split_dimension(tuple(sizes))
    size = 1 if wide or not sizes else sizes[split]
    half = -(-size // 2)
    counters = count if wide else count // size * half
    r = RandomKernel(element, counters, 2)
    inner = math.prod(sizes[split + 1 :])
    if wide:
        with r.counters(r.body, ir.START, ir.STOP) as loop:
            r.store(loop, loop.axis, r.three_fry(loop, loop.axis))
    elif inner > 1:
        _rows(r, half, size, inner)
    elif count % 2 == 0:
        with r.counters(r.body, ir.START, ir.STOP) as loop:
            r.store_pair(loop, *(ir.Index(n, ((loop.axis, 2),)) for n in range(2)))
    else:
        _odd_rows(r, half, size)
    return r.kernel()


def _rows(r: RandomKernel, half: int, size: int, inner: int) -> None:
    """Append loops over rows of counters, whose two words are stored `inner` elements apart."""
    at = r.body.declare("at", ir.START)
    with Repeat(r.body, ir.condition("lt", at, ir.STOP), 1) as rows:
        row = rows.let("row", ir.Quotient(ir.Index(0, ((at, 1),)), inner))
        end = rows.let("end", ir.integer_op("minimum", ir.STOP, ir.Index(inner, ((row, inner),))))
        number = ir.Index(0, ((row, 1),))
        terms = (ir.Quotient(number, half), size), (ir.Remainder(number, half), 2), (row, -1)
        origin = rows.let("origin", ir.Index(0, tuple((term, n * inner) for term, n in terms)))

        def draw(outside: Body, *, both: bool) -> None:
            with r.counters(outside, at, end) as loop:
                first = (origin, 1), (loop.axis, 1)
                r.store_pair(loop, ir.Index(0, first), ir.Index(inner, first) if both else None)

        if size % 2 == 0:
            draw(rows, both=True)
        else:
            with Branch(rows, ir.condition("ne", ir.Remainder(number, half), half - 1), 1 / 2) as b:
                draw(b, both=True)
                draw(b.orelse, both=False)
        rows.set(at, end)


def _odd_rows(r: RandomKernel, half: int, size: int) -> None:
    """Append loops over pairs along a last dimension of odd size: each row drops its last word."""
    at = r.body.declare("at", ir.START)
    with Repeat(r.body, ir.condition("lt", at, ir.STOP), 1) as rows:
        row = rows.let("row", ir.Quotient(ir.Index(0, ((at, 1),)), half))
        whole = rows.let(
            "whole", ir.integer_op("minimum", ir.STOP, ir.Index(half - 1, ((row, half),)))
        )
        origin = rows.let("origin", ir.Index(0, ((row, size - 2 * half),)))
        with r.counters(rows, at, whole) as loop:
            first = (origin, 1), (loop.axis, 2)
            r.store_pair(loop, ir.Index(0, first), ir.Index(1, first))
        rows.set(at, whole)
        with Branch(rows, ir.condition("lt", at, ir.STOP), 1 / half) as last:
            pair = r.three_fry(last, at)
            r.store(last, ir.Index(0, ((origin, 1), (at, 2))), pair)
            last.set(at, ir.plus(at, 1))


def _philox(element: ElementType, count: int, words_of_state: int) -> Kernel:
    wide = element.bit_width == 64
    each = 2 if wide else 4
    counters = -(-count // each)
    whole = count // each
    r = RandomKernel(element, counters, words_of_state)

    def draw(body: Body, counter: ir.Expression, drawn: int) -> None:
        """Draw at a counter and store the first `drawn` numbers."""
        pair = r.philox(body, counter)
        words = pair if wide else [half for word in pair for half in (word, upper_word(word))]
        for number, word in enumerate(words[:drawn]):
            r.store(body, ir.Index(number, ((counter, each),)), word)

    with r.counters(r.body, ir.START, ir.integer_op("minimum", ir.STOP, whole)) as loop:
        draw(loop, loop.axis, each)
    if whole < counters:
        with Branch(r.body, ir.condition("eq", ir.STOP, counters), 1 / counters) as last:
            draw(last, ir.Index(whole), count % each)
    return r.kernel()


def upper_word(wide: ir.Expression) -> ir.Apply:
    """Return the second of the two words of a number."""
    return ir.Apply("shift_right_logical", (wide, ir.Const(Type.U64, (32,))), Type.U64)

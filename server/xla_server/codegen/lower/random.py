"""Lowering of rng-bit-generator: a loop over counters, each of which gives a few elements.

Which counters are drawn for a shape is xla_server.ops.rng_bit_generator's rule.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from xla_contract.element_type import ElementType
from xla_contract.opcode import Opcode
from xla_contract.ops.rng_bit_generator import RandomAlgorithm, RngBitGeneratorAttributes
from xla_server.buffers.code import CopyThunk, KernelThunk
from xla_server.codegen.kernel_ir.kernel import SourceKernel
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.ir.module import HloInstruction
from xla_server.ops.rng_bit_generator import split_dimension

_Stored: TypeAlias = tuple[str, str]
"""The storage of an element, and the text of its bits."""

_WORK = 40
"""About as many cheap operations as a counter costs."""


def lower_rng_bit_generator(lowering: Lowering, i: HloInstruction) -> Tree:
    """One kernel for the bits, whose first part moves the state on too."""
    attributes: RngBitGeneratorAttributes = i.attributes
    state = lowering.array(i.operands[0])
    form = i.operands[0].shape
    after = lowering.new(form, f"{i.name}.state")
    bits = lowering.new(attributes.shape, f"{i.name}.bits")
    if not attributes.shape.element_count:
        lowering.add(CopyThunk(after, state))
        return after, bits
    element, sizes = attributes.shape.element_type, attributes.shape.dimensions
    if attributes.algorithm is RandomAlgorithm.THREE_FRY:
        counters, body = _three_fry(element, sizes)
    else:
        counters, body = _philox(element, math.prod(sizes), form.dimensions[0])
    text = f"""def kernel(buffers, start, stop):
    state = peek_i64(buffers, 0)
    after = peek_i64(buffers, 1)
    out = peek_i64(buffers, 2)
    key = load_u64(state, 0)
    base = load_u64(state, 1)
{body}"""
    arguments, source = (state, after, bits), SourceKernel(text)
    lowering.add(KernelThunk(i.name, source, counters, _WORK, arguments, (state,), (after, bits)))
    return after, bits


def _three_fry(element: ElementType, sizes: Sequence[int]) -> tuple[int, str]:
    """The number of counters, and the text that draws them."""
    count = math.prod(sizes)
    wide = element.bit_width == 64
    split = 0 if wide or not sizes else split_dimension(tuple(sizes))
    size = 1 if wide or not sizes else sizes[split]
    half = -(-size // 2)
    counters = count if wide else count // size * half
    text = _moved(["key", f"add(base, to_u64({counters}))"])
    if wide:
        return counters, text + _loop("store_u64(out, k, three_fry(key, add(base, to_u64(k))))")
    draw = "pair = three_fry(key, add(base, to_u64(k)))"
    first, second = (_narrowed(word, element) for word in ("pair", _high("pair")))
    inner = math.prod(sizes[split + 1 :])
    if inner > 1:
        return counters, text + _rows(draw, first, second, half, size, inner)
    if count % 2 == 0:
        return counters, text + _loop(draw, _store("2 * k", first), _store("2 * k + 1", second))
    return counters, text + _odd_rows(draw, first, second, half, size)


def _loop(*lines: str) -> str:
    return "    for k in range(start, stop):\n" + "".join(f"        {line}\n" for line in lines)


def _rows(draw: str, first: _Stored, second: _Stored, half: int, size: int, inner: int) -> str:
    """Elements with as many between them as the later dimensions have: two rows for a row."""
    last = "" if size % 2 == 0 else f"whole_mod(row, {half}) != {half - 1}"
    both = f"""for k in range(at, end):
            {draw}
            {_store("place + k", first)}
            {_store(f"place + {inner} + k", second)}
"""
    one = f"""for k in range(at, end):
            {draw}
            {_store("place + k", first)}
"""
    choice = f"if {last}:\n{_indented(both)}        else:\n{_indented(one)}"
    body = choice if last else both
    return f"""    at = start
    while at < stop:
        row = whole_div(at, {inner})
        end = min(stop, (row + 1) * {inner})
        place = (whole_div(row, {half}) * {size} + 2 * whole_mod(row, {half}) - row) * {inner}
        {body}        at = end
"""


def _indented(loop: str) -> str:
    head, *rest = loop.splitlines()
    return f"            {head}\n" + "".join(f"    {line}\n" for line in rest)


def _odd_rows(draw: str, first: _Stored, second: _Stored, half: int, size: int) -> str:
    """Neighbours along a last dimension of odd size: the second word of each row's end is lost."""
    return f"""    at = start
    while at < stop:
        row = whole_div(at, {half})
        whole = min(stop, (row + 1) * {half} - 1)
        place = row * {size} - 2 * row * {half}
        for k in range(at, whole):
            {draw}
            {_store("place + 2 * k", first)}
            {_store("place + 2 * k + 1", second)}
        at = whole
        if at < stop:
            k = at
            {draw}
            {_store("place + 2 * k", first)}
            at = at + 1
"""


def _philox(element: ElementType, count: int, words_of_state: int) -> tuple[int, str]:
    """The number of counters, and the text that draws them."""
    wide = element.bit_width == 64
    each = 2 if wide else 4
    counters = -(-count // each)
    whole = count // each

    def lines(pair: str, drawn: int) -> str:
        """Draw at counter k and store the first `drawn` numbers."""
        words = [f"{pair}[0]", f"{pair}[1]"]
        if wide:
            stores = [f"store_u64(out, 2 * k + {n}, {word})" for n, word in enumerate(words)]
        else:
            halves = [half for word in words for half in (word, _high(word))]
            stores = [
                _store(f"4 * k + {n}", _narrowed(half, element)) for n, half in enumerate(halves)
            ]
        draw = [
            "low = add(base, to_u64(k))",
            f"{pair} = philox(key, low, add(high, to_u64(lt(low, base))))",
        ]
        return "".join(f"        {line}\n" for line in (*draw, *stores[:drawn]))

    # Without a third word the key is the counter's upper half too, and does not move.
    high = "load_u64(state, 2)" if words_of_state == 3 else "key"
    moved = ["key", "end", "add(high, to_u64(lt(end, base)))"][:words_of_state]
    text = f"    high = {high}\n    end = add(base, to_u64({counters}))\n" + _moved(moved)
    text += f"    for k in range(start, min(stop, {whole})):\n" + lines("pair", each)
    if whole < counters:
        # A tuple has a name of its own: the direct compiler assigns each but once.
        text += f"    if stop == {counters}:\n        k = {whole}\n" + lines("last", count % each)
    return counters, text


def _moved(words: Sequence[str]) -> str:
    stores = "".join(f"        store_u64(after, {n}, {word})\n" for n, word in enumerate(words))
    return "    if start == 0:\n" + stores


def _high(wide: str) -> str:
    return f"shift_right_logical({wide}, to_u64(32))"


def _narrowed(word: str, element: ElementType) -> _Stored:
    """The name of the storage, and the low bits of a word in it."""
    storage = f"u{8 * element.byte_width}"
    text = f"to_{storage}({word})"
    if element.bit_width < 8:
        text = f"bit_and({text}, to_u8({2**element.bit_width - 1}))"
    return storage, text


def _store(place: str, stored: _Stored) -> str:
    storage, text = stored
    return f"store_{storage}(out, {place}, {text})"


RANDOM_LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType(
    {Opcode.RNG_BIT_GENERATOR: lower_rng_bit_generator}
)

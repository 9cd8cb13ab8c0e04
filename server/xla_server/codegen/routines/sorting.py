"""Sorting in scratch memory, called from kernels.

An entry is one or two words of 64 bits: a signed key, and in its lower half or in a second word
the number of the element. Addresses and words are int64.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from numba import njit

from xla_server.codegen.compiler.direct_compiler import write_function
from xla_server.codegen.compiler.kernel_compiler import Effort
from xla_server.codegen.compiler.shared_functions import SharedFunction
from xla_server.codegen.instructions.intrinsics import (
    bit_and,
    bit_xor,
    minimum,
    shift_right_logical,
)
from xla_server.codegen.instructions.memory import MEMORY, watch_i64

_peek, _poke = MEMORY["peek_i64"], MEMORY["poke_i64"]

COUNT_WORDS = 8 * 256
"""Words of scratch memory for the counts of a sort."""

LOOK = 1 << 16
"""Entries that are moved between two looks at the word that cancels."""


@njit(error_model="numpy")
def _sort_entries(  # type: ignore[no-untyped-def]
    entries, room, counts, length, cancelled, words, first, last
):
    """Sort entries by bytes first .. last - 1 of their keys, equal ones in their order.

    `room` is memory for as many entries again; the address of the sorted ones is the result.
    Where the word at `cancelled` is set they are in no order, and none of them may be used.
    """
    if length <= 32:
        for i in range(1, length):
            key = _peek(entries, i * words)
            number = _peek(entries, i * words + words - 1)
            at = i
            while at > 0 and _peek(entries, (at - 1) * words) > key:
                _poke(entries, at * words, _peek(entries, (at - 1) * words))
                moved = _peek(entries, (at - 1) * words + words - 1)
                _poke(entries, at * words + words - 1, moved)
                at -= 1
            _poke(entries, at * words, key)
            _poke(entries, at * words + words - 1, number)
        return entries
    digits = last - first
    for i in range(digits * 256):
        _poke(counts, i, 0)
    for begin in range(0, length, LOOK):
        if watch_i64(cancelled) != 0:
            return entries
        for i in range(begin, minimum(begin + LOOK, length)):
            key = shift_right_logical(_peek(entries, i * words), 8 * first)
            for digit in range(digits):
                at = digit * 256 + bit_and(key, 255)
                _poke(counts, at, _peek(counts, at) + 1)
                key = shift_right_logical(key, 8)
    for digit in range(digits):
        shift = 8 * (first + digit)
        column = counts + 8 * 256 * digit
        lead = bit_and(shift_right_logical(_peek(entries, 0), shift), 255)
        if _peek(column, lead) == length:
            continue
        # The highest byte has the sign, and what is negative comes first.
        flip = 128 if digit == digits - 1 else 0
        total = 0
        for value in range(256):
            at = bit_xor(value, flip)
            count = _peek(column, at)
            _poke(column, at, total)
            total += count
        for begin in range(0, length, LOOK):
            if watch_i64(cancelled) != 0:
                return entries
            for i in range(begin, minimum(begin + LOOK, length)):
                key = _peek(entries, i * words)
                at = bit_and(shift_right_logical(key, shift), 255)
                place = _peek(column, at)
                _poke(column, at, place + 1)
                number = _peek(entries, i * words + words - 1)
                _poke(room, place * words, key)
                _poke(room, place * words + words - 1, number)
        entries, room = room, entries
    return entries


def _sink_entry(heap, length, at, key, number):  # type: ignore[no-untyped-def]
    """Put an entry of two words at a place of a heap, largest first, or below where it belongs."""
    while True:
        child = 2 * at + 1
        if child >= length:
            break
        low = _peek(heap, 2 * child)
        if child + 1 < length:
            other = _peek(heap, 2 * child + 2)
            if other > low or (
                other == low and _peek(heap, 2 * child + 3) > _peek(heap, 2 * child + 1)
            ):
                child += 1
                low = other
        if low < key or (low == key and _peek(heap, 2 * child + 1) < number):
            break
        _poke(heap, 2 * at, low)
        _poke(heap, 2 * at + 1, _peek(heap, 2 * child + 1))
        at = child
    _poke(heap, 2 * at, key)
    _poke(heap, 2 * at + 1, number)


def _keep_entry(heap, count, seen, key):  # type: ignore[no-untyped-def]
    """Put entry number `seen`, numbers counting up from 0, into a heap of the `count` smallest.

    It is one of the first `count`, or less than the largest that is there.
    """
    if seen >= count:
        sink_entry(heap, count, 0, key, seen)
        return
    _poke(heap, 2 * seen, key)
    _poke(heap, 2 * seen + 1, seen)
    if seen == count - 1:
        for at in range(count // 2 - 1, -1, -1):
            sink_entry(heap, count, at, _peek(heap, 2 * at), _peek(heap, 2 * at + 1))


def _sort_heap(heap, count, cancelled):  # type: ignore[no-untyped-def]
    """Put the entries of a heap in order, smallest first; some of them once `cancelled` is set."""
    for last in range(count - 1, 0, -1):
        if bit_and(last, 1023) == 0 and watch_i64(cancelled) != 0:
            return
        key, number = _peek(heap, 2 * last), _peek(heap, 2 * last + 1)
        _poke(heap, 2 * last, _peek(heap, 0))
        _poke(heap, 2 * last + 1, _peek(heap, 1))
        sink_entry(heap, last, 0, key, number)


def _shared(function: Callable[..., Any], name: str, *, returns: bool = False) -> SharedFunction:
    count = len(inspect.signature(function).parameters)
    write = functools.partial(write_function, function=function)
    return SharedFunction(name, count, write, Effort.OPTIMISED, returns=returns)


def _sorter(words: int, size: int) -> SharedFunction:
    """`_sort_entries` for entries of these words and keys of so many bytes.

    In one word the key is the upper half.
    """
    first = 4 if words == 1 else 0
    last = first + size

    def sort(entries, room, counts, length, cancelled):  # type: ignore[no-untyped-def]
        return _sort_entries(entries, room, counts, length, cancelled, words, first, last)

    return _shared(sort, sorter_name(words, size), returns=True)


def sorter_name(words: int, size: int) -> str:
    """What kernels call the function that sorts entries, by words of one and bytes of its key.

    It takes the addresses of entries, of room for as many, and of counts, how many there are, and
    the address of the word that cancels. It returns the address of the sorted ones.
    """
    return f"sort_entries_{words}_{size}"


sink_entry: Any = _shared(_sink_entry, "sink_entry")

SORTING: dict[str, Any] = {
    "sink_entry": sink_entry,
    **{
        sorter_name(words, size): _sorter(words, size)
        for words, size in ((1, 1), (1, 2), (1, 4), (2, 8))
    },
    "keep_entry": _shared(_keep_entry, "keep_entry"),
    "sort_heap": _shared(_sort_heap, "sort_heap"),
}
"""Every function of this module by its name in kernels."""

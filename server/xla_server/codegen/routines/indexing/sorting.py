"""Sorts and heaps in scratch memory.

An entry is one or two words of 64 bits: a signed key, and in its lower half or in a second word
the number of its element. Addresses and words are int64, little-endian.
"""

import functools
from typing import Any

from numba import njit

from xla_server.codegen.compiler.shared_functions import PythonFunction, by_name
from xla_server.codegen.instructions.intrinsics import (
    bit_and,
    bit_or,
    bit_xor,
    eq,
    lt,
    select,
    whole_mod,
)
from xla_server.codegen.instructions.memory import MEMORY, clear_bytes, watch_i64
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import (
    Cancelled,
    Count,
    Number,
    Routine,
    Update,
    Write,
    routine_of,
)

COUNT_WORDS = 8 * 256
"""Words of scratch memory for the counts of a sort."""

SPAN = 1 << 16
"""Entries that are moved between two polls of the cancellation flag."""

_FEW = 32
"""Largest number of entries that are inserted one by one: counting 256 byte values takes longer."""

_HEAP_SPAN = 1 << 10
"""Entries that leave a heap between two polls of the cancellation flag."""

_COLUMN = 8 * 256
"""Bytes of the counts for one byte of the keys."""

_peek, _poke, _byte = MEMORY["peek_i64"], MEMORY["poke_i64"], MEMORY["peek_u8"]


@njit(error_model="numpy")
def _insert(entries, length, words):  # type: ignore[no-untyped-def]
    """Sort few entries: each goes below those that are larger."""
    for number in range(1, length):
        key = _peek(entries, number * words)
        rest = _peek(entries, number * words + words - 1)
        at = entries + number * words * 8
        while at > entries and _peek(at - words * 8, 0) > key:
            _poke(at, 0, _peek(at - words * 8, 0))
            _poke(at, words - 1, _peek(at - 8, 0))
            at -= words * 8
        _poke(at, 0, key)
        _poke(at, words - 1, rest)


@njit(error_model="numpy")
def _count(counts, at):  # type: ignore[no-untyped-def]
    """Count the value of the byte at an address."""
    value = int(_byte(at, 0))
    _poke(counts, value, _peek(counts, value) + 1)


def _count_twice(count: Any, size: int) -> Any:
    """Return the function that counts twice as many bytes as one for `size` of them."""

    @njit(error_model="numpy")
    def twice(counts, at):  # type: ignore[no-untyped-def]
        count(counts, at)
        count(counts + size * _COLUMN, at + size)

    return twice


def _sorter(words: int, size: int) -> PythonFunction:
    """Return the function that sorts entries of `words` words by keys of `size` bytes.

    It returns the address of the sorted ones: `entries`, or `workspace`, which is as large. Once
    the flag at `cancelled` is set their order is undefined, and none of them may be used.

    A pass, one for each byte from the lowest on, moves entries to 256 regions of the memory beside
    them, in their order. Each byte of the keys has its own counts, which become addresses.
    """
    # In one word the key is the upper half.
    first = 4 if words == 1 else 0
    entry_bytes = 8 * words
    count = functools.reduce(_count_twice, (n for n in (1, 2, 4) if n < size), _count)

    def sort(
        entries: Update, workspace: Write, counts: Write, length: Count, cancelled: Cancelled
    ) -> int:
        if length <= _FEW:
            _insert(entries, length, words)
            return entries
        clear_bytes(counts, size * _COLUMN)
        for begin in range(0, length, SPAN):
            if watch_i64(cancelled) != 0:
                return entries
            keys = entries + begin * entry_bytes + first
            for at in range(keys, keys + min(SPAN, length - begin) * entry_bytes, entry_bytes):
                count(counts, at)
        for digit in range(size):
            cells, shift = counts + digit * _COLUMN, first + digit
            # A byte that is the same in all keys needs no pass.
            if _peek(cells, int(_byte(entries, shift))) != length:
                # The highest byte has the sign, and negative keys come first.
                flip = 128 if digit == size - 1 else 0
                target = workspace
                for number in range(256):
                    value = bit_xor(number, flip)
                    behind = target + _peek(cells, value) * entry_bytes
                    _poke(cells, value, target)
                    target = behind
                for begin in range(0, length, SPAN):
                    if watch_i64(cancelled) != 0:
                        return entries
                    low = entries + begin * entry_bytes
                    high = low + min(SPAN, length - begin) * entry_bytes
                    for at in range(low, high, entry_bytes):
                        value = int(_byte(at, shift))
                        target = _peek(cells, value)
                        _poke(cells, value, target + entry_bytes)
                        rest = _peek(at, words - 1)
                        _poke(target, 0, _peek(at, 0))
                        _poke(target, words - 1, rest)
                entries, workspace = workspace, entries
        return entries

    # A pass for each byte, and one that counts.
    name, each = f"sort_entries_{words}_{size}", 12 * (size + 1)
    return PythonFunction(routine_of(name, sort, lambda n: each * n["length"]), sort, Effort.PLAIN)


@njit(error_model="numpy")
def _is_before(key, number, other, other_number):  # type: ignore[no-untyped-def]
    return bit_or(lt(key, other), bit_and(eq(key, other), lt(number, other_number)))


@njit(error_model="numpy")
def _put(heap, at, key, number):  # type: ignore[no-untyped-def]
    _poke(heap, 2 * at, key)
    _poke(heap, 2 * at + 1, number)


@njit(error_model="numpy")
def _sink(heap, length, key, number):  # type: ignore[no-untyped-def]
    """Put an entry at the head of a heap, and sift it down."""
    at, child = 0, 1
    while child < length:
        largest, its_number = _peek(heap, 2 * child), _peek(heap, 2 * child + 1)
        if child + 1 < length:
            other, other_number = _peek(heap, 2 * child + 2), _peek(heap, 2 * child + 3)
            is_other = _is_before(largest, its_number, other, other_number)
            child = select(is_other, child + 1, child)
            largest = select(is_other, other, largest)
            its_number = select(is_other, other_number, its_number)
        if _is_before(largest, its_number, key, number):
            break
        _put(heap, at, largest, its_number)
        at, child = child, 2 * child + 1
    _put(heap, at, key, number)


def _keep(heap: Update, count: Count, seen: Count, key: Number) -> None:
    if seen >= count:
        _sink(heap, count, key, seen)
    else:
        at = seen
        # The entry is the last of equal ones.
        while at > 0 and _peek(heap, (at - 1) // 2 * 2) <= key:
            parent = (at - 1) // 2
            _put(heap, at, _peek(heap, 2 * parent), _peek(heap, 2 * parent + 1))
            at = parent
        _put(heap, at, key, seen)


KEEP = routine_of("keep_entry", _keep, lambda n: 8 * n["count"].bit_length())
"""Puts entry number `seen` into a heap of the `count` smallest, the largest first.

Numbers count up from 0. The entry is one of the first `count`, or its key is less than the heap's
largest. Equal keys are ordered by their numbers.
"""


def _sort_heap(heap: Update, count: Count, cancelled: Cancelled) -> None:
    for last in range(count - 1, 0, -1):
        if whole_mod(last, _HEAP_SPAN) == 0 and watch_i64(cancelled) != 0:
            return
        key, number = _peek(heap, 2 * last), _peek(heap, 2 * last + 1)
        _put(heap, last, _peek(heap, 0), _peek(heap, 1))
        _sink(heap, last, key, number)


SORT = routine_of("sort_heap", _sort_heap, lambda n: 8 * n["count"] * n["count"].bit_length())
"""Sorts the entries of a heap, smallest first; their order is undefined once the flag is set."""

_SORTERS = {kind: _sorter(*kind) for kind in ((1, 1), (1, 2), (1, 4), (2, 8))}
SORTING = by_name(
    (
        *_SORTERS.values(),
        PythonFunction(KEEP, _keep, Effort.PLAIN),
        PythonFunction(SORT, _sort_heap, Effort.PLAIN),
    )
)
"""Every function of this module by its name in kernels."""


def sorter(words: int, size: int) -> Routine:
    """Return the routine that sorts entries of `words` words by keys of `size` bytes."""
    return _SORTERS[words, size].routine

"""Entries sorted by radix in scratch memory, and the smallest of many, kept in a heap."""

import ctypes
import threading
from typing import Any

import numpy as np
import pytest

from tests.processors import HOST
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.codegen.routines.indexing.sorting import (
    COUNT_WORDS,
    KEEP,
    SORT,
    SORTING,
    SPAN,
    sorter,
)
from xla_server.execution.cancellation import Cancellation

LOADER = Loader(HOST)
STAYS, STOPS = np.zeros(1, np.int64), np.ones(1, np.int64)


def function(routine: Routine) -> Any:
    shared = SORTING[routine.name]
    address = LOADER.load(shared.object_code(HOST), shared.symbol)
    result = ctypes.c_int64 if routine.results else None
    return ctypes.CFUNCTYPE(result, *[ctypes.c_int64] * len(routine.names))(address)


@pytest.fixture(scope="module")
def heap_of() -> Any:
    keep = function(KEEP)

    def made(keys: Any, count: int) -> Any:
        heap = np.zeros((count, 2), np.int64)
        for number, key in enumerate(keys.tolist()):
            if number < count or key < heap[0, 0]:
                keep(heap.ctypes.data, count, number, key)
        return heap

    return made


@pytest.fixture(scope="module")
def sort() -> Any:
    return function(SORT)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 60])
@pytest.mark.parametrize("most", [3, 2**63 - 1])
def test_the_smallest_come_in_order_and_of_equal_ones_the_first(
    count: int, most: int, heap_of: Any, sort: Any
) -> None:
    keys = np.random.default_rng(count).integers(-most, most, 60, endpoint=True)
    for given in (keys, np.sort(keys), np.sort(keys)[::-1]):
        heap = heap_of(given, count)
        sort(heap.ctypes.data, count, STAYS.ctypes.data)
        order = np.argsort(given, kind="stable")[:count]
        np.testing.assert_array_equal(heap, np.stack([given[order], order], 1))


def test_a_long_sort_is_left_once_the_word_is_set(heap_of: Any, sort: Any) -> None:
    count = 1 << 11
    heap = heap_of(np.arange(count), count)
    kept = heap[: 1 << 10].copy()
    sort(heap.ctypes.data, count, STOPS.ctypes.data)
    # Half of them have left the heap.
    np.testing.assert_array_equal(heap[(1 << 10) + 1 :, 0], np.arange((1 << 10) + 1, count))
    assert (heap[: 1 << 10] != kept).any()
    assert (np.diff(heap[: 1 << 10, 0]) < 0).any()


KINDS = [(1, 1), (1, 2), (1, 4), (2, 8)]


class Sorter:
    """One of the functions, called with memory of its own."""

    def __init__(self, words: int, size: int) -> None:
        self._call = function(sorter(words, size))
        self._words = words

    def sorted(self, entries: Any, flag: int = STAYS.ctypes.data) -> Any:
        """The entries after a sort of them; `flag` is the address of the cancellation flag."""
        places = [entries.copy(), np.zeros_like(entries), np.full(COUNT_WORDS, 7)]
        addresses = [place.ctypes.data for place in places]
        length = entries.size // self._words
        found = self._call(*addresses, length, flag)
        return places[addresses.index(found)]


def entries_of(keys: Any, words: int) -> Any:
    """Entries of keys and their numbers."""
    numbers = np.arange(keys.size)
    return keys * 2**32 + numbers if words == 1 else np.stack([keys, numbers], 1).ravel()


@pytest.mark.parametrize(("words", "size"), KINDS)
def test_entries_come_in_the_order_of_their_keys_and_equal_ones_in_theirs(
    words: int, size: int
) -> None:
    sorter, random = Sorter(words, size), np.random.default_rng(size)
    half = 2 ** (8 * size - 1)
    for length in (0, 1, 2, 3, 31, 32, 33, 1000):
        for low, high in ((-half, half - 1), (-2, 2), (-half, -half), (half - 200, half - 1)):
            keys = random.integers(low, high, length, endpoint=True)
            order = np.argsort(keys, kind="stable")
            expected = entries_of(keys, words).reshape(-1, words)[order].ravel()
            np.testing.assert_array_equal(sorter.sorted(entries_of(keys, words)), expected)


def test_long_ones_are_done_in_spans() -> None:
    keys = np.random.default_rng(0).integers(-(2**31), 2**31, 2 * SPAN + 5)
    entries = entries_of(keys, 1)
    np.testing.assert_array_equal(Sorter(1, 4).sorted(entries), np.sort(entries))


def test_nothing_is_moved_once_the_word_is_set() -> None:
    entries = entries_of(np.arange(100)[::-1], 2)
    np.testing.assert_array_equal(Sorter(2, 8).sorted(entries, STOPS.ctypes.data), entries)


def test_a_paused_sort_goes_on_where_it_waited() -> None:
    """A flag that says WAIT is no cancellation: all entries are sorted once it says GO."""
    entries, cancellation = entries_of(np.arange(100)[::-1], 1), Cancellation()
    cancellation.pause()
    threading.Timer(0.1, cancellation.proceed).start()
    found = Sorter(1, 4).sorted(entries, flag=cancellation.flag_address)
    np.testing.assert_array_equal(found, np.sort(entries))

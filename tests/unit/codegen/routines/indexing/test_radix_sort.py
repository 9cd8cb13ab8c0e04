"""Entries sorted by radix in scratch memory."""

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.processors import HOST
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.routines.indexing.radix_sort import COUNT_WORDS, LOOK, sorter
from xla_server.codegen.routines.indexing.sorting import SORTING

KINDS = [(1, 1), (1, 2), (1, 4), (2, 8)]


class Sorter:
    """One of the functions, called with memory of its own."""

    def __init__(self, words: int, size: int) -> None:
        function = SORTING[sorter(words, size).name]
        self._loader = Loader(HOST)
        address = self._loader.load(function.object_code(HOST), function.symbol)
        self._call = ctypes.CFUNCTYPE(
            ctypes.c_int64, *[ctypes.c_int64] * len(sorter(words, size).names)
        )(address)
        self._words = words

    def sorted(self, entries: Any, *, cancelled: int = 0) -> Any:
        """The entries after a sort of them."""
        places = [entries.copy(), np.zeros_like(entries), np.full(COUNT_WORDS, 7)]
        word = np.array([cancelled])
        addresses = [place.ctypes.data for place in places]
        length = entries.size // self._words
        found = self._call(*addresses, length, word.ctypes.data)
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
    keys = np.random.default_rng(0).integers(-(2**31), 2**31, 2 * LOOK + 5)
    entries = entries_of(keys, 1)
    np.testing.assert_array_equal(Sorter(1, 4).sorted(entries), np.sort(entries))


def test_nothing_is_moved_once_the_word_is_set() -> None:
    entries = entries_of(np.arange(100)[::-1], 2)
    np.testing.assert_array_equal(Sorter(2, 8).sorted(entries, cancelled=1), entries)

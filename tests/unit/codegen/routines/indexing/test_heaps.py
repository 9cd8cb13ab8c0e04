"""The smallest of many, kept in a heap."""

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.processors import HOST
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.routines.indexing.heaps import KEEP, SORT
from xla_server.codegen.routines.indexing.sorting import SORTING

LOADER = Loader(HOST)
STAYS, STOPS = np.zeros(1, np.int64), np.ones(1, np.int64)


def function(name: str, operands: int) -> Any:
    shared = SORTING[name]
    address = LOADER.load(shared.object_code(HOST), shared.symbol)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * operands)(address)


@pytest.fixture(scope="module")
def heap_of() -> Any:
    keep = function(KEEP.name, len(KEEP.names))

    def made(keys: Any, count: int) -> Any:
        heap = np.zeros((count, 2), np.int64)
        for number, key in enumerate(keys.tolist()):
            if number < count or key < heap[0, 0]:
                keep(heap.ctypes.data, count, number, key)
        return heap

    return made


@pytest.fixture(scope="module")
def sort() -> Any:
    return function(SORT.name, len(SORT.names))


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

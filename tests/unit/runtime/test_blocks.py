import gc
import itertools

import numpy as np
import pytest

from xla_contract.types.shape import Shape
from xla_server.buffers.assignment import ALIGNMENT
from xla_server.runtime.blocks import BlockPool, block_size


@pytest.mark.parametrize("size", [0, 1, 64, 65, 1000, 4096, 100_000, (1 << 30) + 1])
def test_sizes_are_rounded_up_by_an_eighth_at_most(size: int) -> None:
    rounded = block_size(size)
    assert rounded % ALIGNMENT == 0
    assert size <= rounded <= max(size * 9 / 8, size + ALIGNMENT)
    assert block_size(rounded) == rounded


def test_blocks_are_aligned_and_apart() -> None:
    pool = BlockPool()
    blocks = [pool.allocate(block_size(100)) for _ in range(5)]
    addresses = sorted(block.address for block in blocks)
    assert all(address % ALIGNMENT == 0 for address in addresses)
    assert all(b - a >= 100 for a, b in itertools.pairwise(addresses))


def test_memory_is_reused_when_the_block_has_no_reference() -> None:
    pool = BlockPool()
    size = block_size(1000)
    block = pool.allocate(size)
    address = block.address
    assert pool.free_bytes == 0
    del block
    assert pool.free_bytes == size
    assert pool.allocate(size).address == address


def test_an_array_keeps_its_block() -> None:
    pool = BlockPool()
    block = pool.allocate(block_size(1000))
    array = block.array(Shape.parse("f32[10,25]"))
    array[...] = 7
    part = array[3:]
    del block, array
    gc.collect()
    assert pool.free_bytes == 0
    other = pool.allocate(block_size(1000)).array(Shape.parse("f32[250]"))
    other[...] = 0
    np.testing.assert_array_equal(part, np.full((7, 25), 7, np.float32))


def test_no_more_is_kept_than_the_pool_may() -> None:
    pool = BlockPool(max_free_bytes=10_000)
    blocks = [pool.allocate(4096) for _ in range(4)]
    blocks.clear()
    assert pool.free_bytes <= 10_000
    large = pool.allocate(block_size(20_000))
    del large
    assert pool.free_bytes <= 10_000


def test_sizes_that_are_not_requested_any_more_free_memory() -> None:
    pool = BlockPool(max_free_bytes=10_000)
    old = pool.allocate(8192)
    del old
    new = pool.allocate(4096)
    del new
    assert pool.free_bytes == 4096

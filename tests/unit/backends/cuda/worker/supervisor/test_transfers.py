"""Arrays to a worker and back: in messages and through staging blocks, by several threads."""

from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from tests.unit.backends.cuda.worker.workers import pipes, uploaded, worker
from xla_server.backends.cuda.worker.exchange.messages import INLINE_BYTES
from xla_server.backends.cuda.worker.exchange.shared_memory import BLOCK_BYTES, BLOCKS
from xla_server.backends.cuda.worker.supervisor.process import DeviceWorker

__all__ = ["pipes", "worker"]

SIZES = [
    *(1, 7, INLINE_BYTES, INLINE_BYTES + 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1),
    *(2 * BLOCK_BYTES + 3, 3 * BLOCK_BYTES, 4 * BLOCK_BYTES + 17),
]


def numbers(size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8)


@pytest.mark.parametrize("size", SIZES)
def test_an_array_comes_back_as_it_was(worker: DeviceWorker, size: int) -> None:
    data, found = numbers(size), np.zeros(size, np.uint8)
    worker.download(uploaded(worker, data), found)
    assert np.array_equal(found, data)


@pytest.mark.parametrize("size", [3, INLINE_BYTES, INLINE_BYTES + 1])
def test_the_beginning_of_an_array_is_read(worker: DeviceWorker, size: int) -> None:
    data, found = numbers(2 * INLINE_BYTES), np.zeros(size, np.uint8)
    worker.download(uploaded(worker, data), found)
    assert np.array_equal(found, data[:size])


def test_types_that_have_no_buffers_pass(worker: DeviceWorker) -> None:
    for shape in [(), (3, 5)]:
        data, found = np.full(shape, 1.5, ml_dtypes.bfloat16), np.zeros(shape, ml_dtypes.bfloat16)
        worker.download(uploaded(worker, data), found)
        assert np.array_equal(found, data)


def test_bytes_beyond_the_end_are_refused(worker: DeviceWorker) -> None:
    memory = uploaded(worker, numbers(8))
    with pytest.raises(ValueError, match="within 8 bytes, got 9"):
        worker.download(memory, np.zeros(9, np.uint8))


def test_arrays_with_strides_are_refused(worker: DeviceWorker) -> None:
    with pytest.raises(ValueError, match=r"dense and row-major, got strides \(2,\)"):
        worker.placed(np.zeros(8, np.uint8)[::2])
    memory = uploaded(worker, numbers(8))
    with pytest.raises(ValueError, match=r"dense and row-major, got strides \(2,\)"):
        worker.download(memory, np.zeros(8, np.uint8)[::2])


def test_more_transfers_than_blocks_all_end(worker: DeviceWorker) -> None:
    def there_and_back(seed: int) -> bool:
        data = numbers(3 * BLOCK_BYTES + seed, seed)
        found = np.zeros_like(data)
        worker.download(uploaded(worker, data), found)
        return np.array_equal(found, data)

    with ThreadPoolExecutor(BLOCKS + 4) as pool:
        assert all(pool.map(there_and_back, range(BLOCKS + 4)))

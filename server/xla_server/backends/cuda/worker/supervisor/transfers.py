"""Arrays to and from a device: small ones in a message, others through shared memory.

A large array passes in blocks, two in turn: the worker copies one while the server copies the next.
"""

import contextlib
import itertools
import queue
from collections.abc import Iterator

import numpy as np

from xla_server.backends.cuda.worker.exchange.messages import (
    INLINE_BYTES,
    Download,
    DownloadStaged,
    Upload,
    UploadStaged,
)
from xla_server.backends.cuda.worker.exchange.shared_memory import BLOCK_BYTES
from xla_server.backends.cuda.worker.supervisor.generation import Connection, WorkerProcess
from xla_server.ops.evaluation import Array


def upload(process: WorkerProcess, connection: Connection, address: int, array: Array) -> None:
    """Write an array to the device; raises ValueError where it is not dense and row-major."""
    data = _bytes(array)
    if data.size <= INLINE_BYTES:
        if data.size:
            connection.call(Upload(address, data.tobytes()))
        return
    with _blocks(process, connection) as blocks:
        for number, (start, size) in enumerate(_parts(data.size)):
            block = blocks[number % len(blocks)]
            if number >= len(blocks):
                connection.receive()
            process.staging[block : block + size] = data[start : start + size]
            connection.send(UploadStaged(address + start, block, size))
        while connection.pending:
            connection.receive()


def download(process: WorkerProcess, connection: Connection, address: int, array: Array) -> None:
    """Read an array of the device; raises ValueError where it is not dense and row-major."""
    data = _bytes(array)
    if data.size <= INLINE_BYTES:
        if data.size:
            data[:] = np.frombuffer(connection.call(Download(address, data.size)), np.uint8)
        return
    with _blocks(process, connection) as blocks:
        parts = list(_parts(data.size))
        ahead = len(blocks)
        for number, (start, size) in enumerate(parts[:ahead]):
            connection.send(DownloadStaged(address + start, blocks[number], size))
        for number, (start, size) in enumerate(parts):
            block = blocks[number % ahead]
            connection.receive()
            data[start : start + size] = process.staging[block : block + size]
            if number + ahead < len(parts):
                further, next_size = parts[number + ahead]
                connection.send(DownloadStaged(address + further, block, next_size))


def _bytes(array: Array) -> Array:
    """Return the bytes of a dense row-major array, which share its memory."""
    if not array.flags.c_contiguous:
        raise ValueError(f"an array must be dense and row-major, got strides {array.strides}")
    return array.reshape(-1).view(np.uint8)


def _parts(byte_size: int) -> Iterator[tuple[int, int]]:
    """Yield offset and size of each block's part."""
    for start in itertools.count(0, BLOCK_BYTES):
        if start >= byte_size:
            return
        yield start, min(BLOCK_BYTES, byte_size - start)


@contextlib.contextmanager
def _blocks(process: WorkerProcess, connection: Connection) -> Iterator[list[int]]:
    """Two staging blocks during the block; one where there are no more, so that all go on."""
    taken = [process.blocks.get()]
    try:
        with contextlib.suppress(queue.Empty):
            taken.append(process.blocks.get_nowait())
        yield taken
    finally:
        # The worker uses them until it has answered.
        connection.settle()
        if not connection.is_broken:
            for block in taken:
                process.blocks.put(block)

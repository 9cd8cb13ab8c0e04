"""Arrays to and from a device: small ones in a message, others through shared memory.

A large array is copied through two alternating blocks: the worker copies one while the server
copies the next.
"""

import contextlib
import queue
from collections.abc import Iterator

import numpy as np

from xla_server.backends.cuda.worker.exchange import messages
from xla_server.backends.cuda.worker.exchange.shared_memory import BLOCK_BYTES
from xla_server.backends.cuda.worker.supervisor.generation import Connection, WorkerProcess
from xla_server.ops.evaluation import Array


def inline(array: Array) -> bytes:
    """Return the bytes of an array that fits into a message, no bytes for a larger one.

    Raises ValueError if it is not dense and row-major.
    """
    data = _bytes(array)
    return data.tobytes() if data.size <= messages.INLINE_BYTES else b""


def upload(process: WorkerProcess, connection: Connection, address: int, array: Array) -> None:
    """Write an array to the device; raises ValueError if it is not dense and row-major."""
    data = _bytes(array)
    if data.size > messages.INLINE_BYTES:
        _pass(process, connection, address, data, is_upload=True)
    elif data.size:
        connection.call(messages.Upload(address, data.tobytes()))


def download(process: WorkerProcess, connection: Connection, address: int, array: Array) -> None:
    """Read an array of the device; raises ValueError if it is not dense and row-major."""
    data = _bytes(array)
    if data.size > messages.INLINE_BYTES:
        _pass(process, connection, address, data, is_upload=False)
    elif data.size:
        data[:] = np.frombuffer(connection.call(messages.Download(address, data.size)), np.uint8)


def _pass(
    process: WorkerProcess, connection: Connection, address: int, data: Array, *, is_upload: bool
) -> None:
    """Copy bytes through staging blocks. A block is reused once its last part is copied."""
    request = messages.UploadStaged if is_upload else messages.DownloadStaged
    starts = range(0, data.size, BLOCK_BYTES)
    with _blocks(process, connection) as blocks:
        ahead = len(blocks)
        for number in range(len(starts) + ahead):
            offset = blocks[number % ahead]
            block = process.staging[offset : offset + BLOCK_BYTES]
            if number >= ahead:
                connection.receive()
                part = data[starts[number - ahead] :][:BLOCK_BYTES]
                if not is_upload:
                    part[:] = block[: part.size]
            if number < len(starts):
                part = data[starts[number] :][:BLOCK_BYTES]
                if is_upload:
                    block[: part.size] = part
                connection.send(request(address + starts[number], offset, part.size))


def _bytes(array: Array) -> Array:
    """Return the bytes of a dense row-major array, which share its memory."""
    if not array.flags.c_contiguous:
        raise ValueError(f"an array must be dense and row-major, got strides {array.strides}")
    return array.reshape(-1).view(np.uint8)


@contextlib.contextmanager
def _blocks(process: WorkerProcess, connection: Connection) -> Iterator[list[int]]:
    """Hold two staging blocks, or one if no second is free, so that all transfers proceed."""
    taken = [process.blocks.get()]
    try:
        with contextlib.suppress(queue.Empty):
            taken.append(process.blocks.get_nowait())
        yield taken
    finally:
        # The worker uses them until it has answered or ended; other transfers may wait for them.
        try:
            connection.settle()
        finally:
            if process.loss is not None or not connection.is_broken:
                for block in taken:
                    process.blocks.put(block)

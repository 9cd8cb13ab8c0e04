"""`make transfer-large`: an array of 3 GiB up and down through real processes, in bounded memory.

Not part of `make test`: it needs 12 GiB of free memory and about a minute.
"""

import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil

import xla_client as xc
from tests.e2e.process import start_server
from tests.fault.plain import until

SIZE = 3 << 30
MEBIBYTE = 1 << 20
EXTRA = 256 * MEBIBYTE
"""Memory that a transfer may take on either side beside the array, in bytes: buffers, not
copies.
"""


class Peak:
    """The most memory a process has in use while the block runs, beyond what it had before."""

    def __init__(self, *processes: psutil.Process) -> None:
        self._processes = processes
        self._ended = threading.Event()
        self._before = [each.memory_info().rss for each in processes]
        self.growth = [0] * len(processes)
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._look()
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            self._look()

    def _look(self) -> None:
        for number, process in enumerate(self._processes):
            grown = process.memory_info().rss - self._before[number]
            self.growth[number] = max(self.growth[number], grown)


def _checksum(array: np.ndarray) -> int:
    value, view = 0, memoryview(array).cast("B")
    for start in range(0, len(view), 16 * MEBIBYTE):
        value = zlib.crc32(view[start : start + 16 * MEBIBYTE], value)
    return value


def _timed(what: str, peak: Peak, transfer: Callable[[], object]) -> object:
    started = time.perf_counter()
    with peak:
        result = transfer()
    seconds = time.perf_counter() - started
    client, server = (growth / MEBIBYTE for growth in peak.growth)
    print(
        f"{what}: {SIZE / seconds / 1e6:.0f} MB/s, memory grew by {client:.0f} MiB in the client "
        f"and {server:.0f} MiB in the server"
    )
    return result


def _uploaded(client: xc.Client, processes: tuple[psutil.Process, ...]) -> tuple[xc.Buffer, int]:
    """An array on the server, and its checksum; here it is forgotten."""
    # Every element is another, and none can be made of few.
    array = np.arange(SIZE // 8, dtype=np.uint64)
    array *= np.uint64(0x9E3779B97F4A7C15)
    peak = Peak(*processes)
    buffer = _timed("upload", peak, lambda: client.to_device(array))
    assert isinstance(buffer, xc.Buffer)
    assert peak.growth[0] < EXTRA
    assert peak.growth[1] < SIZE + EXTRA
    return buffer, _checksum(array)


def test_an_array_of_3_gib_goes_up_and_comes_down(tmp_path: Path) -> None:
    free = psutil.virtual_memory().available
    assert free > 12 << 30, f"12 GiB of memory must be free, got {free / 2**30:.1f}"
    flags = ("--platform", "interpreter", "--max-device-bytes", str(4 << 30))
    with (
        start_server(tmp_path, *flags) as running,
        xc.connect(running.address, shared_memory=False) as client,
    ):
        processes = psutil.Process(), psutil.Process(running.process.pid)
        client.to_device(np.zeros(64 * MEBIBYTE, np.uint8)).delete()
        buffer, expected = _uploaded(client, processes)

        down = Peak(*processes)
        fetched = _timed("download", down, buffer.to_numpy)
        assert isinstance(fetched, np.ndarray)
        assert down.growth[0] < SIZE + EXTRA
        assert down.growth[1] < EXTRA
        assert _checksum(fetched) == expected

        buffer.delete()
        until(lambda: processes[1].memory_info().rss <= EXTRA + 128 * MEBIBYTE)

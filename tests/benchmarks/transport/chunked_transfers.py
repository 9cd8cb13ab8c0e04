"""Benchmarks of transfers in chunks: against bare bytes in one message."""

import functools
import sys
from collections.abc import Callable, Iterator

import grpc
import numpy as np

import xla_client
from tests.benchmarks.harness import Comparison, compare
from xla_client.transfers import chunked as transfers
from xla_contract.types.literal import Array

MEBIBYTE = 1 << 20
GATE = 0.75


def chunked_transfers(client: xla_client.Client, echo: grpc.Channel) -> Iterator[Comparison]:
    """Uploads and downloads of 64 and of 4 MiB; `client` must not share memory with its server.

    Chunks have offsets, are checked against a checksum on both ends and can be resumed; the peer
    moves bytes. The second row is the same client with single messages: it shows the size from
    which chunks are faster.
    """
    for mebibytes, calls in ((64, 1), (4, 8), (2, 16), (1, 16)):
        size = mebibytes * MEBIBYTE
        array = np.random.default_rng(3).standard_normal(size // 4, np.float32)
        sink, source = echo.unary_unary("/bench.Echo/Sink"), echo.unary_unary("/bench.Echo/Source")
        payload, wanted = array.tobytes(), str(size).encode()
        gate = GATE if mebibytes == 64 else None
        chunked_up, chunked_down = _transfers(client, array, in_chunks=True)
        unary_up, unary_down = _transfers(client, array, in_chunks=False)
        of = f"{mebibytes} MiB f32"
        yield compare(
            f"upload in chunks, {of}",
            "raw bytes to a sink",
            chunked_up,
            functools.partial(sink, payload),
            calls=calls,
            gate=gate,
        )
        yield compare(
            f"download in chunks, {of}",
            "raw bytes from a source",
            chunked_down,
            functools.partial(source, wanted),
            calls=calls,
            gate=gate,
        )
        yield compare(
            f"upload in chunks, {of}", "TransferToServer", chunked_up, unary_up, calls=calls
        )
        yield compare(
            f"download in chunks, {of}", "TransferToClient", chunked_down, unary_down, calls=calls
        )


def _transfers(
    client: xla_client.Client, array: Array, *, in_chunks: bool
) -> tuple[Callable[[], object], Callable[[], object]]:
    """An upload that frees what it made, and a download; in chunks or in one message."""
    resident = client.to_device(array)
    threshold = 0 if in_chunks else sys.maxsize

    def one_way(transfer: Callable[[], object]) -> Callable[[], object]:
        def run() -> None:
            before, transfers.THRESHOLD = transfers.THRESHOLD, threshold
            try:
                transfer()
            finally:
                transfers.THRESHOLD = before

        return run

    return one_way(lambda: client.to_device(array).delete()), one_way(resident.to_numpy)

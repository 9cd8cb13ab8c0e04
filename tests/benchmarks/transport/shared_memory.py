"""Large values through memory shared with the server, against copying them."""

from collections.abc import Iterator

import numpy as np

import xla_client
from tests.benchmarks.harness import Comparison, compare
from tests.in_threads import in_threads

BYTES = 64 << 20
ROUNDS = 15
GATE = 0.5


def shared_memory(client: xla_client.Client) -> Iterator[Comparison]:
    """Uploads, downloads and both at the same time, of 64 MiB in warm memory.

    An upload is two copies: into the memory that is shared, and out of it before anything of it is
    looked at. A download is one, for its result lies where the server wrote it.
    """
    random = np.random.default_rng(0)
    array = random.standard_normal(BYTES // 4, np.float32)
    target = np.zeros_like(array)
    resident = client.to_device(array)
    parts = np.split(array, 4)

    def upload_parts() -> None:
        in_threads(client.to_device, parts)

    def memcpy() -> None:
        np.copyto(target, array)

    for name, ours, gate in (
        ("shared memory, upload 64 MiB", lambda: client.to_device(array), GATE),
        ("shared memory, upload 4 x 16 MiB at once", upload_parts, None),
        ("shared memory, download 64 MiB", resident.to_numpy, GATE),
    ):
        yield compare(name, "memcpy", ours, memcpy, rounds=ROUNDS, gate=gate)

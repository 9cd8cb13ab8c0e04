"""AllReduce between processes, against bare mpi4py in processes of its own.

One time is that of an all-reduce in a loop of a program: the difference of many iterations and one,
by their number. The peer calls MPI's Allreduce on kept memory, which adds up in another order.
`python -m tests.benchmarks.ranks` prints the rows.
"""

import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import xla_client as xc
from tests.benchmarks.harness import Comparison
from tests.command_line import command_line
from tests.e2e.process import mpirun, start_ranks

RANKS = 2
GATE = 0.8
SIZES = {"1 KiB": (1 << 10, 20_000), "1 MiB": (1 << 20, 100), "64 MiB": (1 << 26, 4)}
"""Bytes, and iterations of the loop beyond the first."""

_PEER = "mpi4py, Allreduce of as many processes"

_LOOP = """HloModule loop
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
body {
  p = (s32[], f32[$N]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] subtract(i, one)
  x = f32[$N] get-tuple-element(p), index=1
  y = f32[$N] all-reduce(x), replica_groups={}, to_apply=add
  ROOT t = (s32[], f32[$N]) tuple(next, y)
}
condition {
  p = (s32[], f32[$N]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  zero = s32[] constant(0)
  ROOT more = pred[] compare(i, zero), direction=GT
}
ENTRY e {
  trips = s32[] parameter(0)
  value = f32[] constant(0.5)
  x = f32[$N] broadcast(value), dimensions={}
  p = (s32[], f32[$N]) tuple(trips, x)
  r = (s32[], f32[$N]) while(p), condition=condition, body=body
  y = f32[$N] get-tuple-element(r), index=1
  ROOT first = f32[1] slice(y), slice={[0:1]}
}
"""


def _serve() -> None:
    """Be the peer: for each line with a size and a number of calls, print the seconds of one."""
    import mpi4py.MPI as MPI

    world = MPI.COMM_WORLD
    while True:
        line = sys.stdin.readline().split() if world.rank == 0 else []
        # Processes that wait must not take the time of those that are measured.
        told = [*map(int, line)] or [0, 0] if world.rank == 0 else [0, 0]
        order = np.array(told)
        request = world.Ibcast(order)
        while not request.Test():
            time.sleep(1e-3)
        size, calls = order.tolist()
        if not size:
            return
        given, total = np.full(size // 4, 0.5, np.float32), np.zeros(size // 4, np.float32)
        world.Allreduce(given, total)
        started = time.perf_counter()
        for _ in range(calls):
            world.Allreduce(given, total)
        if world.rank == 0:
            print((time.perf_counter() - started) / calls, flush=True)


def _ours(run: Any, trips: int) -> float:
    """The seconds of one iteration."""
    spent = []
    for count in (1, trips + 1):
        started = time.perf_counter()
        run.execute_sharded(np.int32(count))
        spent.append(time.perf_counter() - started)
    return (spent[1] - spent[0]) / trips


@contextlib.contextmanager
def _peer() -> Iterator[Any]:
    """The peer's process, until the block ends."""
    command = [*mpirun(RANKS), sys.executable, "-m", "tests.benchmarks.ranks", "--peer"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            # mpirun does not tell rank 0 that its input has ended.
            print("0 0", file=process.stdin, flush=True)


def ranks(rounds: int = 7) -> Iterator[Comparison]:
    """The rows, by size."""
    with (
        _peer() as peer,
        tempfile.TemporaryDirectory() as directory,
        start_ranks(Path(directory), RANKS, "--platform", "cpu") as running,
        xc.connect(running.address, timeout=300) as client,
    ):
        mesh = client.mesh((RANKS,), ("d",), replicas=RANKS)
        for name, (size, trips) in SIZES.items():
            run = client.compile(_LOOP.replace("$N", str(size // 4)), mesh=mesh)
            _ours(run, trips)
            samples = []
            for _ in range(rounds):
                # In turns: either would take the cores of the other.
                own = _ours(run, trips)
                print(size, trips, file=peer.stdin, flush=True)
                samples.append((own, float(peer.stdout.readline())))
            ours, theirs = (statistics.median(column) for column in zip(*samples, strict=True))
            yield Comparison(f"AllReduce {name} over {RANKS} processes", _PEER, ours, theirs, GATE)


if __name__ == "__main__":
    parser = command_line("tests.benchmarks.ranks", __doc__)
    parser.add_argument("--peer", action="store_true", help="serve as the peer")
    if parser.parse_args().peer:
        _serve()
    else:
        for row in ranks():
            print(f"{row.name:55} {row.speed:6.2f}  {row.ours_seconds:.6f} {row.peer_seconds:.6f}")

"""`make storms`: the speed of a client that behaves while another one makes a storm.

Two ratios are printed for each storm, and half is what the client must keep of the second.

- raw: the client's speed in the storm, that before it = 1. The storm's process shares the cores
  with server and client here, which an attacker on another machine would not, so this also has what
  the storm's own processor time takes from them.
- fair: the client's speed in the storm, that in a control = 1. In the control a process that never
  talks to the server takes as much processor time as the storm's process did, in slices of a few
  milliseconds and at the same priority. The figure has all that the server itself spends on the
  storm: its processor time, its event loop, its locks and its threads.

It also prints the processor seconds per second of client, server and storm. Server, client and
connection are the same in the three measurements of a storm.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.command_line import command_line
from tests.e2e.process import start_server
from tests.fault.calls import is_served
from tests.fault.plain import Plain
from tests.fault.storms import STORMS, storm

_SLICE_SECONDS = 0.02
"""Period in which the process of the control computes for its part and then sleeps."""

_SPIN = """
import sys, time
busy, period = float(sys.argv[1]), float(sys.argv[2])
while True:
    began = time.perf_counter()
    while time.perf_counter() < began + busy * period:
        pass
    time.sleep((1 - busy) * period)
"""


def speed(client: Plain, seconds: float) -> float:
    """Return how often a second a client compiles, uploads, executes and downloads."""
    began, rounds = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        is_served(client)
        rounds += 1
    return rounds / passed


@contextlib.contextmanager
def spinning(busy: float) -> Iterator[None]:
    """Run a process that takes a part, 0 to 1, of a core's time as long as the block."""
    command = [sys.executable, "-c", _SPIN, str(min(busy, 1.0)), str(_SLICE_SECONDS)]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _used_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    seconds: float = times.user + times.system
    return seconds


def _measure(name: str, platform: str, seconds: float) -> str:
    """Return the line of one storm."""
    with (
        tempfile.TemporaryDirectory() as directory,
        start_server(Path(directory), "--platform", platform) as server,
    ):
        client = Plain(server.address)
        # A session lasts while its client has a conversation.
        client.stream("Converse")
        is_served(client)
        before = speed(client, seconds)
        with storm(name, server.address) as attacker:
            processes = [psutil.Process(), psutil.Process(server.process.pid)]
            processes.append(psutil.Process(attacker.pid))
            began, used = time.perf_counter(), [_used_seconds(each) for each in processes]
            meanwhile = speed(client, seconds)
            passed = time.perf_counter() - began
            busy = [
                (_used_seconds(each) - at) / passed
                for each, at in zip(processes, used, strict=True)
            ]
        is_served(client)
        with spinning(busy[-1]):
            control = speed(client, seconds)
        client.close()
    parts = " ".join(f"{each:7.2f}" for each in busy)
    return f"{name:20} {meanwhile / before:5.2f} {meanwhile / control:5.2f} {parts}"


def main() -> None:
    """Print a line for each storm."""
    parser = command_line("tests.fault.storm_speed", __doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--platform", default="cpu")
    parser.add_argument("storms", nargs="*", default=list(STORMS), help="names; all by default")
    chosen = parser.parse_args()
    print(f"{'storm':20} {'raw':>5} {'fair':>5} {'client':>7} {'server':>7} {'storm':>7}")
    for name in chosen.storms:
        print(_measure(name, chosen.platform, chosen.seconds), flush=True)


if __name__ == "__main__":
    main()

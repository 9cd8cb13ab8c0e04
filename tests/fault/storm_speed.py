"""`make storms`: the speed of a client that behaves while another one makes a storm.

The peer is the same client on the same server just before. All processes share the machine, so
the processor time that the hostile client itself takes counts against the server.
"""

import argparse
import tempfile
import time
from pathlib import Path

from tests.e2e.process import start_server
from tests.fault.calls import is_served
from tests.fault.plain import Plain
from tests.fault.storms import STORMS, storm


def speed(client: Plain, seconds: float) -> float:
    """Return how often a second a client compiles, uploads, executes and downloads."""
    began, rounds = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        is_served(client)
        rounds += 1
    return rounds / passed


def main() -> None:
    """Print a line for each storm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--platform", default="cpu")
    chosen = parser.parse_args()
    print(f"{'storm':20} speed, before = 1")
    for name in STORMS:
        with (
            tempfile.TemporaryDirectory() as directory,
            start_server(Path(directory), "--platform", chosen.platform) as server,
        ):
            client = Plain(server.address)
            is_served(client)
            before = speed(client, chosen.seconds)
            with storm(name, server.address):
                meanwhile = speed(client, chosen.seconds)
            print(f"{name:20} {meanwhile / before:5.2f}", flush=True)
            client.close()


if __name__ == "__main__":
    main()

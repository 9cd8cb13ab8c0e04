"""`make bench`: run every suite, print the table, write build/bench.json."""

import contextlib
import dataclasses
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import grpc
from rich.console import Console
from rich.table import Table

import xla_client
from tests.benchmarks import echo_server, suites

OUTPUT = pathlib.Path("build/bench.json")


@contextlib.contextmanager
def echo_channel() -> Iterator[grpc.Channel]:
    """A channel to a bare echo server in a process of its own."""
    command = [sys.executable, "-m", "tests.benchmarks.echo_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        try:
            with grpc.insecure_channel(f"127.0.0.1:{port}", echo_server.UNLIMITED) as channel:
                yield channel
        finally:
            process.kill()


def main() -> None:
    """Measure, print, write."""
    rows = list(suites.literals())
    with xla_client.Local() as client, echo_channel() as echo:
        rows += suites.transport(client, echo)
        rows += suites.programs(client)
    table = Table("what", "peer", "speed, peer = 1")
    for row in rows:
        table.add_row(row.name, row.peer, f"{row.speed:.2f}")
    Console().print(table)
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(
        json.dumps([dataclasses.asdict(row) | {"speed": row.speed} for row in rows], indent=1)
    )


if __name__ == "__main__":
    main()

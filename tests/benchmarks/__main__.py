"""`make bench`: run every suite, print the table, write build/bench.json."""

import contextlib
import dataclasses
import json
import pathlib
import socket
from collections.abc import Iterator

import grpc
from rich.console import Console
from rich.table import Table

import xla_client
from tests.benchmarks import suites
from tests.benchmarks.isa import options_of
from tests.benchmarks.ranks import ranks
from tests.benchmarks.several_devices import several_devices
from tests.benchmarks.transport import echo_server
from tests.benchmarks.transport.calls import calls
from tests.benchmarks.transport.chunked_transfers import chunked_transfers
from tests.benchmarks.transport.feeds_suite import feeds
from tests.benchmarks.transport.literals import literals
from tests.benchmarks.transport.shared_memory import shared_memory
from tests.benchmarks.transport.unary_bulk import unary_bulk
from tests.command_line import command_line
from xla_host import allocator

OUTPUT = pathlib.Path("build/bench.json")


@contextlib.contextmanager
def echo_peers() -> Iterator[tuple[grpc.Channel, socket.socket]]:
    """A channel and a TCP connection to bare servers in a process of their own."""
    with (
        echo_server.echo_process() as (target, address),
        grpc.insecure_channel(target, echo_server.UNLIMITED) as channel,
        socket.create_connection(address) as connection,
    ):
        yield channel, connection


def one_message_at_a_time(target: str) -> xla_client.Client:
    """A client that transfers as with a server that has nothing but the rpcs of XlaService."""
    client = xla_client.connect(target, shared_memory=False)
    client._session.chunks = None
    return client


def main() -> None:
    """Measure, print, write."""
    allocator.tune()
    rows = list(literals())
    with xla_client.Local(insecure=True) as client, echo_peers() as (echo, tcp):
        rows += calls(client, echo)
        rows += feeds(client, echo)
        with one_message_at_a_time(client.target) as unary:
            rows += unary_bulk(unary, echo, tcp)
        with xla_client.connect(client.target, shared_memory=False) as chunked:
            rows += chunked_transfers(chunked, echo)
        rows += shared_memory(client)
        rows += suites.programs(client)
    rows += several_devices()
    rows += ranks()
    table = Table("what", "peer", "speed, peer = 1", "gate")
    for row in rows:
        gate = "" if row.gate is None else f"{row.gate}{'' if row.speed >= row.gate else ' missed'}"
        table.add_row(row.name, row.peer, f"{row.speed:.2f}", gate)
    Console().print(table)
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(
        json.dumps([dataclasses.asdict(row) | {"speed": row.speed} for row in rows], indent=1)
    )


if __name__ == "__main__":
    options_of(command_line("tests.benchmarks", __doc__))
    main()

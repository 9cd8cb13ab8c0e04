"""A client in the middle of everything, as a process to be killed: `doomed_client ADDRESS`.

Prints the tokens of its sessions, of the one over the wire and the one with shared memory, once all
is under way, and waits.
"""

import signal
import threading
from collections.abc import Callable

import numpy as np

import xla_client as xc
from tests.command_line import command_line
from tests.e2e.feed_programs import COUNT, source
from tests.fault.plain import token_of, until
from tests.fault.programs import ONES, double, endless
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

LARGE = np.zeros(24 << 20, np.uint8)
EXECUTIONS = 6
"""Executions of the session over the wire: a call, a batch of two, two launched loops, a source of
values.
"""


def work(address: str) -> None:
    """Begin everything, say so, and wait for the end."""
    wire, shared = xc.connect(address, shared_memory=False), xc.connect(address)
    is_under_way = [threading.Event(), threading.Event()]

    def stop_half_way(number: int) -> Callable[[int, int], None]:
        def wait(done: int, of: int) -> None:
            if 2 * done > of:
                is_under_way[number].set()
                signal.pause()

        return wait

    resident = wire.to_device(LARGE)
    loop, chained = wire.compile(endless()), wire.compile(double())
    held = wire.to_device(ONES)
    begin(lambda: wire.to_device(LARGE, progress=stop_half_way(0)))
    begin(lambda: resident.to_numpy(progress=stop_half_way(1)))
    begin(lambda: loop(held))
    begin(lambda: loop.run_batch([[held]] * 2))
    runs = [loop.submit(held)]
    runs.append(loop.submit(held))
    runs.append(chained.submit(runs[0]))
    begin(runs[-1].result)
    runs.append(wire.compile(source(1000)).submit())
    begin(lambda: wire.device().infeed(COUNT).send(range(1000)))
    values = wire.device().outfeed(COUNT, prefetch=2)
    assert [int(next(values)) for _ in range(2)] == [0, 1]
    kept = shared.to_device(LARGE).to_numpy()
    for event in is_under_way:
        event.wait()
    until(lambda: is_in_the_middle(wire))
    tokens = [token_of(client) for client in (wire, shared)]
    print(*tokens, flush=True)
    signal.pause()
    del runs, values, kept


def begin(call: Callable[[], object]) -> None:
    """Make a call in a thread that is not joined."""
    threading.Thread(target=call, daemon=True).start()


def is_in_the_middle(client: xc.Client) -> bool:
    """Return whether the programs run, and the queues of feeds are full."""
    session, feeds = client._session, client.device().feeds()
    use = session.call("DescribeSession", extension_pb2.DescribeSessionRequest(), 10).use
    is_full = [feed.items >= feed.max_items for feed in (feeds.infeed, feeds.outfeed)]
    return all(is_full) and use.concurrent_executions == EXECUTIONS


if __name__ == "__main__":
    parser = command_line("tests.fault.doomed_client", __doc__)
    parser.add_argument("address")
    work(parser.parse_args().address)

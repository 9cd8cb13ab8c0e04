"""Programs that wait for feeds and channels keep no others from running."""

import contextlib

import numpy as np

import xla_client as xc
from tests.e2e.feed_programs import COUNT, sink, source
from tests.e2e.process import serving
from tests.fault.plain import until
from tests.unit.sessions.sample_runs import DOUBLE, ONES, program

WAITING = 5
QUEUE = 4


server = serving(
    "--execute-threads", "1", "--feed-items", str(QUEUE), platforms=("interpreter", "cpu")
)


def _waiters(client: xc.Client) -> tuple[int, int]:
    """Return the numbers of instructions that wait for infeed and for outfeed."""
    states = client.device().feeds()
    return len(states.infeed.waiters), len(states.outfeed.waiters)


def test_a_receiver_leaves_its_thread_to_the_sender(address: str) -> None:
    with xc.connect(address, timeout=60) as client:
        channel = client.create_channel_handle(1).handle
        vector = xc.Shape.parse("f32[4]")
        builder = xc.Builder("receiver")
        receiver = client.compile(builder.build(builder.recv(vector, channel) * 2))
        builder = xc.Builder("sender")
        x = builder.parameter(0, vector)
        xc.ops.send(x, channel)
        sender = client.compile(builder.build(x))
        received = receiver.submit()
        sender.submit(ONES).result(100)
        np.testing.assert_array_equal(received.result(100).to_numpy(), 2 * ONES)  # type: ignore[union-attr]


def test_a_server_with_one_thread_runs_programs_beside_those_that_wait(address: str) -> None:
    with contextlib.ExitStack() as stack:
        waiting, called, other = (
            stack.enter_context(xc.connect(address, timeout=60)) for _ in range(3)
        )
        # Its runs are calls of Execute.
        called._session.transport.capabilities = frozenset()
        executable = waiting.compile(sink(1))
        runs = [executable.submit() for _ in range(WAITING)]
        runs.append(waiting.compile(source(QUEUE + 1)).submit())
        executable = called.compile(sink(1))
        calls = [executable.submit() for _ in range(WAITING)]
        until(lambda: _waiters(waiting) == (WAITING, 1) and _waiters(called) == (WAITING, 0))
        double = other.compile(program(DOUBLE))
        np.testing.assert_array_equal(double.run(ONES, timeout=20), 2 * ONES)
        launched = double.submit(ONES).result(100)
        np.testing.assert_array_equal(launched.to_numpy(), 2 * ONES)  # type: ignore[union-attr]
        for client in (waiting, called):
            with client.device().infeed(COUNT) as feed:
                feed.send(range(WAITING))
        assert len(list(waiting.device().outfeed(COUNT, QUEUE + 1))) == QUEUE + 1
        for run in (*runs, *calls):
            run.result(100)

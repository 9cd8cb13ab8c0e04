"""Channels between programs and clients as streams, against real servers of both platforms."""

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.process import serving
from tests.fault.plain import until
from xla_client import Builder, Computation, Op, Shape, ops
from xla_client.lib import loops
from xla_contract.stubs.xla_extension_pb2 import CAPABILITY_HOST_CHANNELS

VECTOR = Shape.parse("f32[3]")
X = np.array([1, 2, 3], np.float32)
QUEUE = 4


server = serving("--devices", "2", "--feed-items", str(QUEUE), platforms=("interpreter", "cpu"))


@pytest.fixture
def channels(client: xc.Client) -> tuple[int, int]:
    """Numbers of a channel to the host, and of one from it."""
    return client.create_channel_handle(2).handle, client.create_channel_handle(3).handle


def doubling(rounds: int, out: int, back: int) -> Computation:
    """Sends twice what it receives, again and again; gives the sum of what it received."""
    builder = Builder("doubling")

    def step(_: Op, values: list[Op]) -> list[Op]:
        total, token = values
        pair = ops.recv_from_host(token, VECTOR, back)
        received, token = (ops.get_tuple_element(pair, number) for number in range(2))
        return [total + received, ops.send_to_host(received * 2, token, out)]

    total, _ = loops.for_each_index(rounds, step, [builder.constant(0 * X), builder.create_token()])
    return builder.build(total)


def receiving(channel: int) -> Computation:
    builder = Builder("receiving")
    return builder.build(
        ops.get_tuple_element(ops.recv_from_host(builder.create_token(), VECTOR, channel), 0)
    )


def sending(rounds: int, channel: int) -> Computation:
    builder = Builder("sending")

    def step(_: Op, values: list[Op]) -> list[Op]:
        return [values[0] + 1, ops.send_to_host(values[0], values[1], channel)]

    last, _ = loops.for_each_index(rounds, step, [builder.constant(X), builder.create_token()])
    return builder.build(last)


def test_values_pass_both_ways_while_the_program_runs(client, channels):
    out, back = channels
    run = client.compile(doubling(200, out, back)).submit()
    device = client.device()
    results = device.outfeed(VECTOR, channel_id=out, run=run)
    with device.infeed(VECTOR, channel_id=back) as feed:
        for number in range(200):
            feed.put(number * X)
            np.testing.assert_array_equal(next(results), 2 * number * X)
    np.testing.assert_array_equal(run.result().to_numpy(), sum(range(200)) * X)
    assert list(results) == []
    assert device.feeds().infeed.sequence == 0


def test_each_replica_has_its_own_queues(client, channels):
    out, back = channels
    mesh = client.mesh((2,), ("replicas",), replicas=2)
    program = client.compile(doubling(1, out, back), mesh=mesh)
    for ordinal in range(2):
        with client.device(ordinal).infeed(VECTOR, channel_id=back) as feed:
            feed.put((ordinal + 1) * X)
    results = program.execute_sharded()
    for ordinal, result in enumerate(results):
        np.testing.assert_array_equal(result.to_numpy(), (ordinal + 1) * X)
        values = client.device(ordinal).outfeed(VECTOR, count=1, channel_id=out)
        np.testing.assert_array_equal(next(values), 2 * (ordinal + 1) * X)


def test_a_program_waits_for_its_reader_in_bounded_memory(client, channels):
    out, _ = channels
    run = client.compile(sending(50, out)).submit()
    device = client.device()
    until(lambda: device.feeds(channel_id=out).outfeed.waiters)
    state = device.feeds(channel_id=out).outfeed
    assert state.items == QUEUE
    assert f"channel {out}" in state.waiters[0].reason
    assert state.waiters[0].instruction.startswith("send")
    values = list(device.outfeed(VECTOR, channel_id=out, run=run))
    np.testing.assert_array_equal(values, [X + number for number in range(50)])


def test_a_program_that_waits_can_be_cancelled_and_one_that_was_fed_goes_on(client, channels):
    _, back = channels
    program, device = client.compile(receiving(back)), client.device()
    waiting = program.submit()
    until(lambda: device.feeds(channel_id=back).infeed.waiters)
    waiting.cancel()
    with pytest.raises(xc.CancelledError):
        waiting.result()
    with device.infeed(channel_id=back) as feed:
        feed.put(X)
    np.testing.assert_array_equal(program.run(), X)


def test_a_reader_that_leaves_loses_no_value(client, channels):
    out, _ = channels
    run = client.compile(sending(6, out)).submit()
    device = client.device()
    with device.outfeed(VECTOR, channel_id=out, prefetch=1) as values:
        np.testing.assert_array_equal(next(values), X)
    rest = device.outfeed(VECTOR, channel_id=out, run=run)
    np.testing.assert_array_equal(list(rest), [X + number for number in range(1, 6)])


def test_closing_a_channel_ends_waiters(client, channels):
    _, back = channels
    waiting, device = client.compile(receiving(back)).submit(), client.device()
    until(lambda: device.feeds(channel_id=back).infeed.waiters)
    device.infeed(channel_id=back).close_queue()
    with pytest.raises(xc.AbortedError, match=f"channel {back}"):
        waiting.result()


def test_channels_that_are_no_host_channels(client, channels):
    out, back = channels
    for wrong in (out, client.create_channel_handle(1).handle):
        with pytest.raises(xc.FailedPreconditionError, match="type HOST_TO_DEVICE here"):
            client.compile(receiving(wrong)).run()
        with pytest.raises(xc.FailedPreconditionError, match="type HOST_TO_DEVICE here"):
            client.device().infeed(channel_id=wrong).drain()
    with pytest.raises(xc.FailedPreconditionError, match="type DEVICE_TO_HOST here"):
        client.compile(sending(1, back)).run()
    with pytest.raises(xc.FailedPreconditionError, match="made by CreateChannelHandle"):
        client.compile(receiving(7)).run()
    with pytest.raises(xc.FailedPreconditionError, match="made by CreateChannelHandle"):
        client.device().feeds(channel_id=7)


def test_servers_without_streams_of_channels_are_refused(client, channels):
    capabilities = client._session.transport.capabilities
    client._session.transport.capabilities = capabilities - {CAPABILITY_HOST_CHANNELS}
    for use in (client.device().infeed, client.device().outfeed, client.device().feeds):
        with pytest.raises(xc.UnimplementedError, match="CAPABILITY_HOST_CHANNELS"):
            use(channel_id=channels[0])

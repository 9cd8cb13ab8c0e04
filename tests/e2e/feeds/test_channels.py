"""Programs that send values to each other while they run."""

import numpy as np
import pytest

import xla_client as xc
from xla_client import Builder, Computation, Shape, ops

VECTOR = Shape.parse("f32[3]")
X = np.array([1, 2, 3], np.float32)


@pytest.fixture(scope="module")
def client():
    with xc.Local(devices=2, timeout=60) as client:
        yield client


def _exchange(name: str, out: int, back: int) -> Computation:
    """Sends its argument on one channel; what comes on the other, plus its argument."""
    builder = Builder(name)
    x = builder.parameter(0, VECTOR)
    received = builder.recv(VECTOR, back)
    ops.send(x, out)
    return builder.build(received + x)


def _ping(rounds: int, first: bool) -> Computation:
    """Passes a vector to and fro, adding 1 each time it has it."""
    state = Shape.parse("(s32[], f32[3], token[])")
    condition = Builder("condition")
    more = condition.build(ops.lt(ops.get_tuple_element(condition.parameter(0, state), 0), rounds))
    body = Builder("body")
    parameter = body.parameter(0, state)
    count, ball, token = (ops.get_tuple_element(parameter, n) for n in range(3))
    there, back = (1, 2) if first else (2, 1)
    if first:
        token = ops.send_with_token(ball, token, there)
    pair = ops.recv_with_token(token, VECTOR, back)
    ball, token = (ops.get_tuple_element(pair, n) for n in range(2))
    ball = ball + 1
    if not first:
        token = ops.send_with_token(ball, token, there)
    step = body.build(ops.tuple([count + 1, ball, token]))
    builder = Builder("ping")
    start = ops.tuple([builder.constant(0), builder.constant(X), builder.create_token()])
    return builder.build(ops.get_tuple_element(ops.while_(more, step, start), 1))


def _channel(client: xc.Client) -> int:
    return client.create_channel_handle(1).handle


def _receiver(channel_id: int) -> Computation:
    builder = Builder("receiver")
    return builder.build(builder.recv(VECTOR, channel_id) * 2)


def _sender(channel_id: int) -> Computation:
    builder = Builder("sender")
    return builder.build(ops.send(builder.parameter(0, VECTOR), channel_id))


def test_two_programs_of_one_call_exchange_values(client):
    launches = [
        xc.Launch(_exchange("left", 1, 2), (X,), 0),
        xc.Launch(_exchange("right", 2, 1), (10 * X,), 1),
    ]
    for result in client.execute_parallel(launches):
        np.testing.assert_array_equal(result.to_numpy(), 11 * X)


def test_two_programs_pass_a_value_to_and_fro_more_often_than_a_channel_holds(client):
    rounds = 300
    launches = [xc.Launch(_ping(rounds, first), (), int(not first)) for first in (True, False)]
    left, right = client.execute_parallel(launches)
    np.testing.assert_array_equal(left.to_numpy(), X + 2 * rounds)
    np.testing.assert_array_equal(right.to_numpy(), X + 2 * rounds - 1)


def test_two_executions_meet_on_a_channel_of_the_server(client):
    channel_id = _channel(client)
    waiting = client.compile(_receiver(channel_id)).submit()
    client.compile(_sender(channel_id))(X)
    np.testing.assert_array_equal(waiting.result().to_numpy(), 2 * X)


def test_a_program_sends_to_itself(client):
    program = client.compile(_exchange("loop", 5, 5))
    for result in [run.result() for run in [program.submit(X) for _ in range(4)]]:
        np.testing.assert_array_equal(result.to_numpy(), 2 * X)


def test_a_receiver_without_sender_ends_at_its_deadline_and_the_server_goes_on(client):
    receiver = client.compile(_receiver(_channel(client)))
    with pytest.raises(xc.DeadlineExceededError):
        receiver(timeout=0.5)
    builder = Builder("negate")
    negate = client.compile(builder.build(-builder.parameter(0, VECTOR)))
    np.testing.assert_array_equal(negate(X).to_numpy(), -X)


def test_the_call_fails_when_the_sender_ends_or_fails_and_names_the_receiver(client):
    builder = Builder("never")
    condition = Builder("condition")
    condition.parameter(0, VECTOR)
    body = Builder("body")
    y = body.parameter(0, VECTOR)
    ops.send(y, 1)
    x = builder.parameter(0, VECTOR)
    never = condition.build(condition.constant(False))
    silent = builder.build(ops.while_(never, body.build(y), x))
    launches = [xc.Launch(silent, (X,), 0), xc.Launch(_receiver(1), (), 1)]
    with pytest.raises(xc.FailedPreconditionError, match=r"request 1: .*recv-done"):
        client.execute_parallel(launches)


def test_what_no_channel_carries(client):
    with pytest.raises(xc.FailedPreconditionError, match="CreateChannelHandle"):
        client.compile(_receiver(10**6))()
    host = client.create_channel_handle(3).handle
    with pytest.raises(xc.FailedPreconditionError, match="HOST_TO_DEVICE"):
        client.compile(_receiver(host))()
    builder = Builder("host")
    pair = ops.recv_from_host(builder.create_token(), VECTOR, host)
    with pytest.raises(xc.UnimplementedError, match="infeed"):
        client.compile(builder.build(ops.get_tuple_element(pair, 0)))

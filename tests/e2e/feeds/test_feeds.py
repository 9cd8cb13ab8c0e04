"""Programs that exchange values while they run."""

import threading

import numpy as np
import pytest

import xla_client as xc
from xla_client import Builder, Computation, Shape, ops

ITEM = Shape.parse("(f32[3], s32[])")


@pytest.fixture
def client():
    with xc.Local(devices=2, timeout=60) as client:
        yield client


def _stream(steps: int) -> Computation:
    """Takes (vector, weight) from infeed `steps` times and sends each sum so far to outfeed."""
    state = Shape.parse("(s32[], f32[3], token[])")
    condition = Builder("condition")
    count = ops.get_tuple_element(condition.parameter(0, state), 0)
    more = condition.build(ops.lt(count, steps))
    body = Builder("body")
    parameter = body.parameter(0, state)
    count, total, token = (ops.get_tuple_element(parameter, n) for n in range(3))
    fed = ops.infeed_with_token(token, ITEM)
    item, token = (ops.get_tuple_element(fed, n) for n in range(2))
    vector, weight = (ops.get_tuple_element(item, n) for n in range(2))
    total = total + vector * ops.convert_element_type(weight, xc.ElementType.F32)
    token = ops.outfeed_with_token(total, token)
    step = body.build(ops.tuple([count + 1, total, token]))
    builder = Builder("stream")
    init = ops.tuple(
        [builder.constant(0), builder.constant(np.zeros(3, np.float32)), builder.create_token()]
    )
    return builder.build(ops.get_tuple_element(ops.while_(more, step, init), 1))


def test_batches_stream_in_while_results_stream_out(client):
    steps = 300  # more than a queue holds, so both sides wait for each other
    run = client.compile(_stream(steps)).submit()
    device = client.device(0)
    batches = ((np.full(3, n, np.float32), np.int32(2)) for n in range(steps))
    sent: list[int] = []

    def feed() -> None:
        with device.infeed(ITEM) as infeed:
            sent.append(infeed.send(batches))

    feeder = threading.Thread(target=feed)
    feeder.start()
    sums = [float(total[0]) for total in device.outfeed(Shape.parse("f32[3]"), steps)]
    feeder.join()
    assert sent == [steps]
    assert sums == [float(n * (n + 1)) for n in range(steps)]
    np.testing.assert_array_equal(run.result().to_numpy(), np.full(3, sums[-1]))


def test_each_device_has_feeds_of_its_own(client):
    builder = Builder("double")
    doubled = builder.build(builder.infeed(Shape.parse("s32[]")) * 2)
    for ordinal in (1, 0):
        client.device(ordinal).to_infeed(10 + ordinal, Shape.parse("s32[]"))
    results = client.execute_parallel([xc.Launch(doubled, (), n) for n in range(2)])
    assert [int(result.to_numpy()) for result in results] == [20, 22]

"""The client against a real server process."""

import gc
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import xla_client as xc
from tests.unit.sessions.sample_runs import ONES, endless
from xla_client import Builder, Computation, ElementType, Layout, Literal, Shape, ops

F32 = ElementType.F32


@pytest.fixture(scope="module")
def client():
    with xc.Local(devices=3, timeout=60, insecure=True) as client:
        yield client


def _axpy() -> Computation:
    builder = Builder("axpy")
    alpha = builder.parameter(0, Shape.parse("f32[]"), "alpha")
    x = builder.parameter(1, Shape.parse("f32[3]"), "x")
    y = builder.parameter(2, Shape.parse("f32[3]"), "y")
    return builder.build(alpha * x + y)


def _identity(shape: str) -> Computation:
    builder = Builder("identity")
    return builder.build(builder.parameter(0, Shape.parse(shape)))


def _loop(steps: int) -> Computation:
    """Counts to `steps` in a while loop."""
    scalar = Shape.parse("s32[]")
    condition = Builder("condition")
    done = condition.build(ops.lt(condition.parameter(0, scalar), steps))
    body = Builder("body")
    step = body.build(body.parameter(0, scalar) + 1)
    builder = Builder("loop")
    return builder.build(ops.while_(done, step, builder.constant(0)))


def _is_freed(client: xc.Client, handle: int) -> bool:
    try:
        client.adopt(handle)
    except (xc.InvalidArgumentError, xc.NotFoundError):
        return True
    return False


def test_arrays_and_buffers_are_arguments(client):
    run = client.compile(_axpy())
    x = np.float32([1, 2, 3])
    on_device = client.to_device(x)
    result = run(2.0, on_device, [10.0, 20.0, 30.0])
    assert isinstance(result, xc.Buffer)
    assert str(result.shape) == "f32[3]{0}"
    np.testing.assert_array_equal(result.to_numpy(), [12, 24, 36])
    np.testing.assert_array_equal(run.run(np.float32(1), result, on_device), [13, 26, 39])
    np.testing.assert_array_equal(np.asarray(on_device), x)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, np.zeros(3, np.float32)), "one argument per parameter, got 2"),
        ((1.0, np.zeros(3), np.zeros(3, np.float32)), "argument 1: .*f64"),
        ((1.0, np.zeros(4, np.float32), np.zeros(3, np.float32)), "argument 1: .*4"),
    ],
)
def test_arguments_that_do_not_fit(client, arguments, message):
    with pytest.raises(xc.InvalidArgumentError, match=message):
        client.compile(_axpy())(*arguments)


def test_tuple_result_comes_apart_and_outlives_the_tuple(client):
    builder = Builder("pair")
    x = builder.parameter(0, Shape.parse("f32[2,3]"))
    pair = builder.build(ops.tuple([x * 2, ops.transpose(x, [1, 0])]))
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    run = client.compile(pair)
    twice, turned = run(value)
    client.free_unused()
    np.testing.assert_array_equal(twice.to_numpy(), value * 2)
    np.testing.assert_array_equal(turned.to_numpy(), value.T)
    fetched = run.run(value)
    np.testing.assert_array_equal(fetched[1], value.T)
    whole = client.to_device((value, np.int32(7)))
    assert [str(part.shape) for part in client.unpack(whole)] == ["f32[2,3]{1,0}", "s32[]"]


def test_nested_and_empty_tuples(client):
    builder = Builder("nested")
    x = builder.parameter(0, Shape.parse("(f32[], (s32[2], pred[]))"))
    nested = client.compile(builder.build(x))
    value = (np.float32(1), (np.int32([2, 3]), np.bool_(True)))
    result = nested(value)
    assert isinstance(result, xc.Buffer)
    one, (two, three) = result.to_numpy()
    assert (one, two.tolist(), three) == (1, [2, 3], True)
    with pytest.raises(xc.UnimplementedError):
        result.deconstruct()
    builder = Builder("nothing")
    assert client.compile(builder.build(ops.tuple([], builder)))() == ()


@pytest.mark.parametrize(
    "value",
    [
        np.array(True),
        np.arange(4, dtype=np.uint8),
        np.float32([np.nan, -0.0, np.inf]),
        np.complex64([1 + 2j, 3]),
        np.array([1.5, 2.5], ml_dtypes.bfloat16),
        np.array([-8, 7], ml_dtypes.int4),
        np.zeros((0, 3), np.float64),
    ],
    ids=lambda value: str(value.dtype),
)
def test_values_survive_the_way_there_and_back(client, value):
    fetched = client.to_device(value).to_literal()
    assert fetched.equal(Literal.from_numpy(value))


def test_layouts_of_arguments_and_result(client):
    column_major = Layout((0, 1))
    run = client.compile(
        _identity("f32[2,3]"), argument_layouts=[column_major], result_layout=column_major
    )
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = run(value)
    assert client.adopt(run(value).handle).shape == result.shape == Shape.parse("f32[2,3]{0,1}")
    np.testing.assert_array_equal(result.to_numpy(), value)
    assert result.to_literal(column_major).linear_memory().tolist() == [0, 3, 1, 4, 2, 5]
    row_major = client.to_device(value)
    np.testing.assert_array_equal(run(row_major).to_numpy(), value)


def test_compile_errors_have_class_and_position(client):
    proto = _axpy().proto
    root = proto.computations[0].instructions[-1]
    del root.shape.dimensions[:]
    del root.shape.is_dynamic_dimension[:]
    root.shape.ClearField("layout")
    with pytest.raises(xc.InvalidArgumentError) as caught:
        client.compile(Computation.from_proto(proto))
    assert (caught.value.op, caught.value.instruction) == ("add", root.name)
    builder = Builder("custom")
    call = ops.custom_call([], "no such function", Shape.parse("f32[]"), builder=builder)
    with pytest.raises(xc.UnimplementedError, match="no such function"):
        client.compile(builder.build(call))()
    with pytest.raises(xc.InvalidArgumentError, match="debug_options"):
        client.compile(_axpy(), debug_options={"no_such_option": 1})


def test_deleted_things_are_not_used(client):
    buffer = client.to_device(np.zeros(3, np.float32))
    run = client.compile(_identity("f32[3]"))
    handle = buffer.handle
    buffer.delete()
    buffer.delete()
    assert buffer.is_deleted
    assert _is_freed(client, handle)
    with pytest.raises(xc.InvalidArgumentError, match=r"the deleted f32\[3\]"):
        run(buffer)
    run.delete()
    with pytest.raises(xc.InvalidArgumentError, match="the deleted 'identity'"):
        run(np.zeros(3, np.float32))


def test_garbage_is_freed_on_the_server(client):
    run = client.compile(_axpy())
    results = [run(1.0, np.zeros(3, np.float32), np.zeros(3, np.float32)) for _ in range(3)]
    handles = [result.handle for result in results]
    del results[0]
    gc.collect()
    client.free_unused()
    assert [_is_freed(client, handle) for handle in handles] == [True, False, False]


def test_closing_frees_everything():
    with xc.Local() as client:
        other = xc.connect(client.target)
        kept = other.to_device(np.zeros(3, np.float32))
        handle = kept.handle
        other.close()
        other.close()
        assert _is_freed(client, handle)
        with pytest.raises(xc.UnavailableError, match="closed"):
            kept.to_numpy()
        del kept
        gc.collect()


def test_a_process_that_ends_without_closing_leaves_nothing_behind(client):
    code = (
        "import numpy, xla_client as xc; "
        f"buffer = xc.connect({client.target!r}).to_device(numpy.zeros(3)); print(buffer.handle)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert _is_freed(client, int(done.stdout))


def test_devices(client):
    assert [device.ordinal for device in client.devices()] == [0, 1, 2]
    x, y = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    np.testing.assert_array_equal(
        client.execute(_axpy(), 2.0, x, y, device=2).to_numpy(), 2 * x + y
    )
    launches = [xc.Launch(_axpy(), (float(n), x, y), n) for n in range(3)]
    for number, result in enumerate(client.execute_parallel(launches)):
        np.testing.assert_array_equal(result.to_numpy(), number * x + y)
    with pytest.raises(xc.InvalidArgumentError):
        client.to_device(x, device=3)
    client.reset_device()


def test_constants_statistics_and_channels(client):
    np.testing.assert_array_equal(client.compute_constant(_loop(5)), 5)
    with pytest.raises(xc.InvalidArgumentError):
        client.compute_constant(_axpy())
    assert client.graph_stats(_axpy()).flop_count == 6
    first, second = client.create_channel_handle(1), client.create_channel_handle(3)
    assert second.handle != first.handle
    assert second.type == 3
    with pytest.raises(xc.InvalidArgumentError):
        client.create_channel_handle(0)


def test_deadline_and_cancellation_stop_the_run(client):
    forever = client.compile(endless())
    with pytest.raises(xc.DeadlineExceededError):
        forever(ONES, timeout=0.3)
    run = forever.submit(ONES)
    with pytest.raises(xc.DeadlineExceededError):
        run.result(timeout=0.2)
    assert not run.done()
    run.cancel()
    with pytest.raises(xc.CancelledError):
        run.result()
    # The device is free again.
    assert client.compile(_loop(3)).run(timeout=20) == 3


def test_local_says_why_the_server_did_not_start():
    with pytest.raises(xc.UnavailableError, match="feed_items: must be greater than"):
        xc.Local(feed_items=-1).start()

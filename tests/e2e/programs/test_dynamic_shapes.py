"""Values of dynamic shape over the wire."""

import threading

import numpy as np
import pytest

import xla_client as xc
from xla_client import Builder, Computation, Literal, Shape, ops

SIX = Shape.parse("f32[<=6]")
LINE = np.arange(1, 7, dtype=np.float32)


@pytest.fixture(scope="module", params=["cpu", "interpreter"])
def client(request):
    with xc.Local(request.param, devices=1, timeout=60) as client:
        yield client


def _doubled() -> Computation:
    builder = Builder("doubled")
    return builder.build(builder.parameter(0, SIX) * 2)


def test_parameters_and_results_have_their_actual_size(client):
    run = client.compile(_doubled())
    for size in (0, 4, 6):
        result = run(LINE[:size])
        assert str(result.shape) == "f32[<=6]{0}"
        np.testing.assert_array_equal(result.to_numpy(), 2 * LINE[:size])
        literal = run(result).to_literal()
        np.testing.assert_array_equal(literal.to_numpy(), 4 * LINE[:size])
        assert literal.value.shape == (6,)


def test_what_is_uploaded_comes_back(client):
    literal = Literal.from_numpy(LINE[:2], SIX)
    back = client.to_device(literal).to_literal()
    assert back == literal
    assert back.dynamic_sizes == (2,)
    np.testing.assert_array_equal(np.asarray(client.to_device(literal)), LINE[:2])


def test_an_array_larger_than_the_bound_is_refused(client):
    with pytest.raises(xc.InvalidArgumentError, match=r"argument 0: .*\[7\] for f32\[<=6\]"):
        client.compile(_doubled())(np.zeros(7, np.float32))


def test_a_dynamic_value_is_no_static_argument(client):
    builder = Builder("static")
    run = client.compile(builder.build(builder.parameter(0, Shape.parse("f32[6]")) * 2))
    value = client.to_device(Literal.from_numpy(LINE[:2], SIX))
    with pytest.raises(xc.InvalidArgumentError, match=r"f32\[<=6\]\{0\} for f32\[6\]\{0\}"):
        run(value)


def test_sizes_within_a_tuple(client):
    builder = Builder("pair")
    parameter = builder.parameter(0, Shape.parse("(f32[<=6], s32[])"))
    array, size = (ops.get_tuple_element(parameter, number) for number in range(2))
    shorter = ops.set_dimension_size(array, size, 0)
    run = client.compile(builder.build(ops.tuple([shorter, ops.get_dimension_size(array, 0)])))
    part, before = run.run((LINE[:5], np.int32(3)))
    np.testing.assert_array_equal(part, LINE[:3])
    assert before == 5


def test_a_size_outside_the_bound_names_the_instruction(client):
    builder = Builder("sized")
    size = builder.parameter(0, Shape.parse("s32[]"))
    run = client.compile(builder.build(ops.set_dimension_size(builder.constant(LINE), size, 0)))
    np.testing.assert_array_equal(run.run(np.int32(6)), LINE)
    with pytest.raises(
        xc.InvalidArgumentError,
        match=r"set-dimension-size %set-dimension-size\.3: the size must be in \[0, 6\], got 7",
    ):
        run(np.int32(7))


def test_feeds_keep_sizes(client):
    builder = Builder("feeds")
    fed = builder.infeed(SIX)
    ops.outfeed(fed * 2)
    run = client.compile(builder.build(ops.get_dimension_size(fed, 0))).submit()
    device = client.device(0)
    feeder = threading.Thread(target=device.to_infeed, args=(LINE[:4], SIX))
    feeder.start()
    np.testing.assert_array_equal(device.from_outfeed(SIX), 2 * LINE[:4])
    feeder.join()
    assert int(run.result().to_numpy()) == 4


def test_a_fed_dynamic_value_is_not_taken_as_a_static_one(client):
    builder = Builder("static")
    run = client.compile(builder.build(builder.infeed(Shape.parse("f32[6]"))))
    device = client.device(0)
    device.to_infeed(LINE[:4], SIX)
    with pytest.raises(xc.InvalidArgumentError, match=r"f32\[<=6\] in the queue and f32\[6\]"):
        run()
    client.reset_device()


def test_constants_are_computed_with_their_sizes(client):
    builder = Builder("constant")
    some = ops.set_dimension_size(builder.constant(LINE), builder.constant(2), 0)
    np.testing.assert_array_equal(client.compute_constant(builder.build(-some)), -LINE[:2])

"""Programs over one array of COUNT elements: quick, endless, and waiting for an infeed."""

import numpy as np

from xla_client import Builder, Computation, Shape, ops

COUNT = 1 << 16
ARRAY = Shape.parse(f"f32[{COUNT}]")
ITEM = Shape.parse("f32[]")
ONES = np.ones(COUNT, np.float32)


def double() -> Computation:
    """x + x."""
    builder = Builder("double")
    x = builder.parameter(0, ARRAY)
    return builder.build(x + x)


def gated() -> Computation:
    """x + the next item of infeed, which it waits for."""
    builder = Builder("gated")
    x = builder.parameter(0, ARRAY)
    fed = ops.get_tuple_element(ops.infeed_with_token(builder.create_token(), ITEM), 0)
    return builder.build(x + ops.broadcast(fed, [COUNT]))


def numbers(count: int) -> Computation:
    """0, 1, 2 and so on as s32: a value that comes to be on the device."""
    builder = Builder("numbers")
    return builder.build(builder.iota(Shape.parse(f"s32[{count}]"), 0))


def endless() -> Computation:
    """while(true)."""
    always, body, builder = Builder("always"), Builder("body"), Builder("endless")
    always.parameter(0, ARRAY)
    step = body.build(body.parameter(0, ARRAY) + np.float32(1))
    x = builder.parameter(0, ARRAY)
    return builder.build(ops.while_(always.build(always.constant(True)), step, x))

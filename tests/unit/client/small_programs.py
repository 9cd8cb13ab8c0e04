"""Small programs that several tests run."""

import numpy as np

from xla_client import Builder, Computation, Shape, ops

VECTOR = Shape.parse("f32[4]")
ONES = np.ones(4, np.float32)


def double(shape: Shape = VECTOR) -> Computation:
    builder = Builder("double")
    x = builder.parameter(0, shape)
    return builder.build(x + x)


def add() -> Computation:
    builder = Builder("add")
    return builder.build(builder.parameter(0, VECTOR) + builder.parameter(1, VECTOR))


def pair() -> Computation:
    """(x, 2 x)"""
    builder = Builder("pair")
    x = builder.parameter(0, VECTOR)
    return builder.build(ops.tuple([x, x + x]))


def identity(shape: str) -> Computation:
    builder = Builder("identity")
    return builder.build(builder.parameter(0, Shape.parse(shape)))


def endless() -> Computation:
    """while(true) over its argument."""
    always, body, builder = Builder("always"), Builder("body"), Builder("endless")
    always.parameter(0, VECTOR)
    step = body.parameter(0, VECTOR) + np.float32(1)
    x = builder.parameter(0, VECTOR)
    condition = always.build(always.constant(True))
    return builder.build(ops.while_(condition, body.build(step), x))


def broadcast(elements: int) -> Computation:
    """f32[] -> f32[elements]"""
    builder = Builder("broadcast")
    x = builder.parameter(0, Shape.parse("f32[]"))
    return builder.build(ops.broadcast(x, [elements]))

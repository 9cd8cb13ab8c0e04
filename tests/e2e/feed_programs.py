"""Programs that read and write feeds as long as the feeds last."""

from collections.abc import Callable

import numpy as np

from xla_client import Builder, Computation, Op, Shape, ops

COUNT = Shape.parse("s32[]")


def relay(steps: int, item: Shape = COUNT) -> Computation:
    """Takes `steps` items from infeed and sends each to outfeed as it is."""

    def step(_: Op, token: Op) -> Op:
        fed = ops.infeed_with_token(token, item)
        value, token = (ops.get_tuple_element(fed, n) for n in range(2))
        return ops.outfeed_with_token(value, token)

    return _loop("relay", steps, step)


def source(steps: int) -> Computation:
    """Sends the numbers below `steps` to outfeed."""
    return _loop("source", steps, ops.outfeed_with_token)


def sink(steps: int, item: Shape = COUNT) -> Computation:
    """Takes `steps` items from infeed."""

    def step(_: Op, token: Op) -> Op:
        return ops.get_tuple_element(ops.infeed_with_token(token, item), 1)

    return _loop("sink", steps, step)


def _loop(name: str, steps: int, step: Callable[[Op, Op], Op]) -> Computation:
    """A step from each number and token to the next token."""
    state = Shape.parse("(s32[], token[])")
    condition, body, builder = Builder("condition"), Builder("body"), Builder(name)
    count = ops.get_tuple_element(condition.parameter(0, state), 0)
    more = condition.build(ops.lt(count, steps))
    parameter = body.parameter(0, state)
    count, token = (ops.get_tuple_element(parameter, n) for n in range(2))
    after = body.build(ops.tuple([count + 1, step(count, token)]))
    init = ops.tuple([builder.constant(np.int32(0)), builder.create_token()])
    return builder.build(ops.get_tuple_element(ops.while_(more, after, init), 0))

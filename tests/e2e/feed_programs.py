"""Programs that read and write feeds as long as the feeds last."""

import numpy as np

from xla_client import Builder, Computation, Shape, ops

COUNT = Shape.parse("s32[]")


def relay(steps: int, item: Shape = COUNT) -> Computation:
    """Takes `steps` items from infeed and sends each to outfeed as it is."""
    state = Shape.parse("(s32[], token[])")
    more = _more(state, steps)
    body = Builder("body")
    parameter = body.parameter(0, state)
    count, token = (ops.get_tuple_element(parameter, n) for n in range(2))
    fed = ops.infeed_with_token(token, item)
    value, token = (ops.get_tuple_element(fed, n) for n in range(2))
    step = body.build(ops.tuple([count + 1, ops.outfeed_with_token(value, token)]))
    return _loop("relay", more, step)


def source(steps: int) -> Computation:
    """Sends the numbers below `steps` to outfeed."""
    state = Shape.parse("(s32[], token[])")
    more = _more(state, steps)
    body = Builder("body")
    parameter = body.parameter(0, state)
    count, token = (ops.get_tuple_element(parameter, n) for n in range(2))
    step = body.build(ops.tuple([count + 1, ops.outfeed_with_token(count, token)]))
    return _loop("source", more, step)


def sink(steps: int, item: Shape = COUNT) -> Computation:
    """Takes `steps` items from infeed."""
    state = Shape.parse("(s32[], token[])")
    more = _more(state, steps)
    body = Builder("body")
    parameter = body.parameter(0, state)
    count, token = (ops.get_tuple_element(parameter, n) for n in range(2))
    fed = ops.infeed_with_token(token, item)
    step = body.build(ops.tuple([count + 1, ops.get_tuple_element(fed, 1)]))
    return _loop("sink", more, step)


def _more(state: Shape, steps: int) -> Computation:
    condition = Builder("condition")
    count = ops.get_tuple_element(condition.parameter(0, state), 0)
    return condition.build(ops.lt(count, steps))


def _loop(name: str, more: Computation, step: Computation) -> Computation:
    builder = Builder(name)
    init = ops.tuple([builder.constant(np.int32(0)), builder.create_token()])
    return builder.build(ops.get_tuple_element(ops.while_(more, step, init), 0))

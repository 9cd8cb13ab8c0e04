"""Python functions as computations, and the values of the program around them that they use."""

import functools
import math
import operator
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.unit.client.writing.running import run
from xla_client import Builder, ScatterDimensionNumbers, ops
from xla_client.lib import loops
from xla_client.programs.functions import COPIED_BYTES
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError

X = np.arange(6, dtype=np.float32).reshape(2, 3)
V = np.float32([3, 1, 2])


def opcodes(computation: xc.Computation, part: int = -1) -> list[str]:
    return [each.opcode for each in computation.proto.computations[part].instructions]


def test_reducers(client: xc.Client) -> None:
    def write(b: Builder, x: xc.Op, v: xc.Op) -> Any:
        two = b.constant(np.float32(2))
        return (
            ops.reduce(x, 0.0, lambda a, b: a + b, 0),
            ops.reduce(x, -np.inf, ops.max, (0, 1)),
            ops.reduce(x, 1, np.multiply, dimensions_to_reduce=1),
            ops.reduce_all(x, 0, lambda a, b: ops.max(a + two, b + two) - two),
            ops.reduce([v, v * 2], [0.0, 1.0], lambda a, b, x, y: (a + x, b * y), 0)[1],
            ops.reduce_window(x, 0.0, lambda a, b: a + b, (1, 2), (1, 1), "SAME"),
            ops.map([v, v], lambda a, b: a * 10 + b),
            ops.all_reduce(v, lambda a, b: a + b),
        )

    results = run(client, write, X, V)
    expected = [X.sum(0), 5, X.prod(1), 5, 48, [[1, 3, 2], [7, 9, 5]], V * 11, V]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted)


def test_comparators_and_scatters(client: xc.Client) -> None:
    numbers = ScatterDimensionNumbers((), (0,), (0,), 1)

    def write(b: Builder, v: xc.Op, n: xc.Op) -> Any:
        return (
            ops.sort(v, lambda a, b: a.gt(b)),
            ops.sort([v, n], lambda a, b, m, n: a.lt(b))[1],
            ops.scatter(v, n, v, lambda old, new: old + new * 10, numbers),
            ops.select_and_scatter(
                v, ops.ge, 3, 1, "valid", v[:1], 0.0, lambda a, b: a + b
            ),
        )  # fmt: skip

    results = run(client, write, V, np.int32([2, 0, 1]))
    expected = [[3, 2, 1], [0, 1, 2], [13, 21, 32], [3, 0, 0]]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, np.float32(wanted))


def test_loops_carry_what_they_use(client: xc.Client) -> None:
    def write(b: Builder, x: xc.Op, v: xc.Op) -> Any:
        one, step = b.constant(1), x * 3
        limit = v.sum().astype("s32") // 2
        count, total = ops.while_(
            lambda state: state[0].lt(limit),
            lambda state: (state[0] + one, state[1] + step),
            [0, x],
        )
        several = loops.while_loop(
            lambda values: values[0].lt(limit), lambda values: [values[0] + 1, values[1] * v],
            [b.constant(0), v],
        )  # fmt: skip
        alone = loops.while_loop(lambda v: v.lt(10.0).all(), lambda v: v + step[0, 1], v)
        listed = loops.while_loop(
            lambda values: values[0].lt(9), lambda values: values[0] + 2, [one]
        )
        indexed = loops.for_each_index(4, lambda i, v: v + x * i.astype("f32"), x)
        return count, total, several[1], alone, listed[0], indexed

    results = run(client, write, X, V)
    expected = [3, X + 9 * X, V**4, V + 9, 9, X + 6 * X]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted)


@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_branches_have_operands_of_their_own_shared_or_none(client: xc.Client, chosen: int) -> None:
    def write(b: Builder, index: xc.Op, x: xc.Op) -> Any:
        y = x + 1
        pred = index.gt(0)
        return (
            ops.conditional(pred, lambda: x.sum(), lambda: 0.0),
            ops.conditional(pred, lambda a: a * 2, lambda a: a + y, x),
            ops.conditional(pred, lambda a, b: a + b, lambda a, b: a - b, x, 2.0 * y),
            ops.conditional(index, [lambda: x, lambda: y, lambda: x + y]),
            ops.conditional(index, [lambda a: a, lambda a: a + y, lambda a: -a], [x, y, x]),
            *ops.conditional(pred, lambda: (x, y), lambda: (y, x)),
        )

    results = run(client, write, np.int32(chosen), X)
    y, pred = X + 1, chosen > 0
    expected = [
        X.sum() if pred else 0,
        X * 2 if pred else X + y,
        X + 2 * y if pred else X - 2 * y,
        (X, y, X + y)[chosen],
        (X, y + y, -X)[chosen],
        *((X, y) if pred else (y, X)),
    ]
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, np.float32(wanted))


def test_calls_and_scans(client: xc.Client) -> None:
    def write(b: Builder, x: xc.Op, v: xc.Op) -> Any:
        sums, total = ops.scan(x, 0.0, lambda row, so_far: (row * v, so_far + row.sum() + v[0]))
        return ops.call(lambda a: a + x, x * 2), sums, total

    results = run(client, write, X, V)
    for result, wanted in zip(results, [3 * X, X * V, X.sum() + 6], strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_functions_nest(client: xc.Client) -> None:
    def write(b: Builder, x: xc.Op) -> xc.Op:
        def body(i: xc.Op, v: xc.Op) -> xc.Op:
            w = loops.for_each_index(2, lambda _, u: u + x + v * i.astype("f32"), v)
            return ops.conditional(i.gt(1), lambda: w, lambda: w - v)

        return loops.for_each_index(3, body, x)

    expected = X
    for i in range(3):
        w = expected
        for _ in range(2):
            w = w + X + expected * i
        expected = w if i > 1 else w - expected
    np.testing.assert_array_equal(run(client, write, X), expected)


def test_what_a_function_writes_is_inside_whichever_builder_it_names(client: xc.Client) -> None:
    """A loop's body that draws numbers of outside values draws them anew each time."""

    def write(b: Builder, x: xc.Op) -> Any:
        low = x * 0

        def body(_: xc.Op, v: xc.Op) -> xc.Op:
            return v + ops.rng_uniform(low[0], 1.0, "f32[]") * b.constant(1.0)

        loops.for_each_index(3, body, b.constant(0.0))
        return x

    builder = Builder("program")
    computation = builder.build(write(builder, builder.parameter(0, "f32[2]")))
    held = [part for part in range(-3, 0) if "rng" in opcodes(computation, part)]
    assert held
    assert held != [-1]
    assert "rng" not in opcodes(computation)


def test_small_constants_are_copied_and_large_ones_handed_in() -> None:
    builder = Builder("program")
    x = builder.parameter(0, "f32[3]")
    small = ops.broadcast(builder.constant(1.5), [3])
    loops.while_loop(lambda v: v.lt(1.0).all(), lambda v: v + small, x)
    computation = builder.build()
    # One value, nothing from outside: the state is a tuple of it for a list alone.
    assert opcodes(computation)[-1] == "while"
    assert str(builder.build().result) == "f32[3]{0}"
    large = builder.constant(np.zeros(COPIED_BYTES, np.float32))
    result = loops.while_loop(lambda v: v.lt(1.0).all(), lambda v: v + large[:3], x)
    loop = builder.build(result).proto
    (body,) = [part for part in loop.computations if part.name == "body.1"]
    assert "constant" not in {each.opcode for each in body.instructions}
    assert "get-tuple-element" in {each.opcode for each in body.instructions}


def test_an_error_inside_leaves_the_builder_usable() -> None:
    builder = Builder("program")
    x = builder.parameter(0, "f32[3]")

    def broken(*_: Any) -> Any:
        raise KeyError("mine")

    for write in (
        lambda: ops.reduce(x, 0.0, broken, 0),
        lambda: ops.while_(broken, broken, x),
        lambda: ops.conditional(x[0].gt(0), broken, broken),
    ):
        with pytest.raises(KeyError, match="mine"):
            write()
    assert (x + 1).builder is builder
    verified = builder.build(x + 1)
    assert opcodes(verified)[-1] == "add"


def test_names_are_those_of_the_functions() -> None:
    builder = Builder("program")
    x = builder.parameter(0, "f32[3]")

    def largest(a: xc.Op, b: xc.Op) -> xc.Op:
        return ops.max(a, b)

    ops.reduce(x, 0.0, largest, 0)
    names = [part.name for part in builder.build().proto.computations]
    assert names == ["largest", "program"]


def test_a_computation_is_made_of_a_function_of_the_wanted_types() -> None:
    builder = Builder("program")
    x = builder.parameter(0, "bf16[3]")
    n = builder.parameter(1, "s32[3]")
    total = ops.reduce([x, n], [0, 0], lambda a, b, x, n: [a + x, b + n], 0)
    assert str(total.shape) == "(bf16[], s32[])"
    with pytest.raises(InvalidArgumentError, match=r"float 0.5 for s32"):
        ops.reduce(n, 0, lambda a, b: a + b * 0.5, 0)


def test_a_reducer_in_a_loop_uses_constants_from_all_around(client: xc.Client) -> None:
    def write(b: Builder, x: xc.Op) -> xc.Op:
        two = b.constant(np.float32(2))

        def body(i: xc.Op, v: xc.Op) -> xc.Op:
            one = b.constant(np.float32(1))
            largest = ops.reduce(v, 0.0, lambda a, b: ops.max(a + two, b + two) - two * one, 0)
            return v + largest[0]

        return loops.for_each_index(2, body, x)

    expected = X + X[:, 0].max()
    expected = expected + expected[:, 0].max()
    np.testing.assert_array_equal(run(client, write, X), expected)
    with pytest.raises(InvalidArgumentError, match="can use its arguments and constants"):
        run(
            client,
            lambda _, x: loops.for_each_index(
                2, lambda i, v: ops.map(v, lambda each: each * i.astype("f32")), x
            ),
            X,
        )


@pytest.mark.parametrize("function", [math.sqrt, float, np.sqrt])
def test_functions_of_numbers_are_refused_by_their_kind(function: Any) -> None:
    x = Builder("program").parameter(0, "f32[3]")
    with pytest.raises(ArgumentTypeError):
        ops.map(x, function)


def test_conditions_may_be_known_and_callables_have_no_name(client: xc.Client) -> None:
    def write(b: Builder, x: xc.Op) -> xc.Op:
        more = functools.partial(operator.add, 1.0)
        never = ops.while_(lambda _: False, lambda v: v * 0, x)
        return ops.map(never, more)

    np.testing.assert_array_equal(run(client, write, X), X + 1)

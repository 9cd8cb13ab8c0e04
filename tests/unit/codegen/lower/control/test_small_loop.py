"""While loops on a few scalars, which become one kernel."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.corpus.jax.programs import lower as lowered_by_jax
from tests.processors import TARGET, tuned
from tests.unit.codegen.compiled import built, imported
from tests.unit.codegen.from_jax import assert_same_as_jax
from xla_client import Shape, ops
from xla_client.programs.builder import Builder, Op
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.assignment import ALIGNMENT
from xla_server.buffers.code import Code, CopyThunk, Jump, KernelThunk
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import For
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.ir.module import HloModule

F = np.float32
TABLE = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3], np.int32)
ROW = np.linspace(-2, 2, 50, dtype=F)


def code_of(module: HloModule) -> Code:
    return compile_module(module).code


def has_loop_inside(function: Callable[..., Any], *arguments: Any) -> bool:
    """Return whether the executor runs no iterations: the loop is in a kernel."""
    thunks = code_of(imported(lowered_by_jax(function, *arguments))).thunks
    assert any(isinstance(thunk, KernelThunk) for thunk in thunks)
    return not any(isinstance(thunk, Jump) for thunk in thunks)


def counted(x: Any) -> Any:
    return lax.fori_loop(0, 1000, lambda i, y: y * 0.999 + i, x)


def powers(x: Any) -> Any:
    return lax.fori_loop(0, 1000, lambda i, y: jnp.power(y, x), x)


def swapped(n: Any) -> Any:
    return lax.fori_loop(0, n, lambda i, s: (s[1], s[0], s[0] + s[1]), (n, n + 1, n))


def collatz(n: Any) -> Any:
    def step(state: Any) -> Any:
        number, steps = state
        return jnp.where(number % 2 == 0, number // 2, 3 * number + 1), steps + 1

    return lax.while_loop(lambda state: state[0] != 1, step, (n, jnp.int32(0)))


def running_mean(row: Any) -> Any:
    return lax.scan(lambda c, x: (c * 0.5 + x, (c, c + x)), F(0), row)


def neighbours(row: Any) -> Any:
    """Each iteration reads values that the iterations before it have written."""

    def step(i: Any, array: Any) -> Any:
        pair = lax.dynamic_slice(array, (i,), (2,))
        return lax.dynamic_update_slice(array, pair[::-1] + pair[0] * 3, (i + 1,))

    return lax.fori_loop(0, 48, step, row)


def written_twice(row: Any) -> Any:
    """The second update reads and overwrites elements of the first."""

    def step(i: Any, array: Any) -> Any:
        once = lax.dynamic_update_slice(array, array[:2] + 1, (i,))
        return lax.dynamic_update_slice(once, once[1:3] * 2, (i + 1,))

    return lax.fori_loop(0, 40, step, row)


def rotated(four: Any) -> Any:
    return lax.fori_loop(0, 30, lambda i, a: jnp.roll(a, 1) * F(0.5) + a[i % 4], four)


def looked_up(n: Any) -> Any:
    table = jnp.asarray(TABLE)
    return lax.fori_loop(0, n, lambda i, s: s + table[s % 10] * table[i], jnp.int32(0))


def narrow_types(x: Any) -> Any:
    def step(i: Any, state: Any) -> Any:
        half, brain, byte, flag, whole = state
        return half * 1.25 + 1, brain * 1.5 - 1, byte * 3 + 1, ~flag, whole * (1 - 0.5j)

    start = (
        x.astype(jnp.float16),
        x.astype(jnp.bfloat16),
        x.astype(jnp.int8),
        x > 0,
        x.astype(jnp.complex64),
    )
    return lax.fori_loop(0, 9, step, start)


def counts_of(values: Any) -> Any:
    """Some values are outside of the array: their updates are left out."""
    zeros = jnp.zeros(10, jnp.int32)
    return lax.fori_loop(0, 50, lambda i, counts: counts.at[values[i]].add(2, mode="drop"), zeros)


def set_and_read(row: Any) -> Any:
    def step(i: Any, state: Any) -> Any:
        array, most = state
        return array.at[i].set(array[i - 1] - array[i - 2]), jnp.maximum(most, array[i])

    return lax.fori_loop(2, 50, step, (row, row[0]))


def one_column(i: Any) -> Any:
    """A window of several elements, and one that may not fit."""
    start = jnp.arange(30, dtype=jnp.int32).reshape(3, 10)
    return lax.fori_loop(
        0, 12, lambda n, a: a.at[:, n * i].set(a[:, 0] * 3 + n, mode="drop"), start
    )


def summed_row(row: Any) -> Any:
    """An iteration may combine a few elements of an array that stays."""

    def step(i: Any, most: Any) -> Any:
        return jnp.maximum(most, lax.dynamic_slice(row, (i,), (9,)).max())

    return lax.fori_loop(0, 30, step, F(-5))


def filtered(row: Any) -> Any:
    """A filter that adapts its weights: states of 16 numbers, one of them shifted by a number."""

    def step(state: Any, new: Any) -> Any:
        weights, last = state
        last = jnp.concatenate([new[None], last[:-1]])
        error = new - weights @ last
        return (weights + error * last, last), error

    zeros = jnp.zeros(16, jnp.int32)
    return lax.scan(step, (zeros, zeros), row)


def running_sums(row: Any) -> Any:
    return lax.fori_loop(0, 20, lambda i, a: jnp.cumsum(a) + a.max(), row)


@pytest.mark.parametrize(
    ("function", "argument"),
    [
        (counted, F(1)),
        (filtered, TABLE),
        (running_sums, TABLE),
        (swapped, np.int32(7)),
        (collatz, np.int32(27)),
        (running_mean, ROW),
        (neighbours, np.arange(50, dtype=np.int32)),
        (written_twice, np.arange(50, dtype=np.int32)),
        (rotated, ROW[:4]),
        (looked_up, np.int32(10)),
        (narrow_types, F(2)),
        (counts_of, np.arange(-20, 30, dtype=np.int32)),
        (set_and_read, ROW),
        (one_column, np.int32(2)),
        (summed_row, ROW),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_small_loops_are_one_kernel_and_give_what_xla_gives(
    function: Callable[..., Any], argument: Any
) -> None:
    assert has_loop_inside(function, argument)
    assert_same_as_jax(function, argument)


def test_an_iteration_takes_the_time_that_kernels_are_counted_with() -> None:
    short = tuned(TARGET, "small_loops", max_work=60)
    for function, is_one in ((counted, True), (lambda x: counted(x) ** x, True), (powers, False)):
        module = imported(lowered_by_jax(function, F(0.5)))
        thunks = compile_module(module, target=short).code.thunks
        assert is_one is not any(isinstance(thunk, Jump) for thunk in thunks)


@pytest.mark.parametrize(("elements", "is_one"), [(16, True), (17, False)])
def test_arrays_of_at_most_sixteen_numbers_become_variables(elements: int, is_one: bool) -> None:
    def function(x: Any) -> Any:
        return lax.fori_loop(0, 9, lambda i, y: jnp.roll(y, 3) * F(0.5) + i, x)

    argument = np.linspace(1, 2, elements, dtype=F)
    assert has_loop_inside(function, argument) is is_one
    assert_same_as_jax(function, argument)


def test_loops_over_variables_are_unrolled() -> None:
    """Otherwise each iteration of a sum would select its element from all variables."""
    (kernel,) = (
        thunk.kernel
        for thunk in code_of(imported(lowered_by_jax(running_sums, TABLE))).thunks
        if isinstance(thunk, KernelThunk)
    )
    assert isinstance(kernel, Kernel)
    loops = [each for each, _ in walk(kernel.body) if isinstance(each, For)]
    inside = [each for each in loops if each.iterations == 10]
    assert inside
    assert all(each.unrolled for each in inside)


@pytest.mark.parametrize(("elements", "is_one"), [(2, True), (4, False), (8, False)])
def test_arrays_of_functions_stay_vectors(elements: int, is_one: bool) -> None:
    def function(x: Any) -> Any:
        def step(i: Any, y: Any) -> Any:
            for _ in range(6):
                y = jnp.sqrt(jnp.abs(y) + 1) / x
            return y

        return lax.fori_loop(0, 9, step, x)

    argument = np.linspace(1, 2, elements, dtype=F)
    assert has_loop_inside(function, argument) is is_one
    assert_same_as_jax(function, argument)


def test_a_loop_that_does_not_turn_gives_what_it_was_given() -> None:
    assert_same_as_jax(collatz, np.int32(1))
    assert_same_as_jax(swapped, np.int32(-3))


def test_a_loop_over_large_arrays_keeps_a_kernel_for_each_iteration() -> None:
    def scan(rows: Any) -> Any:
        return lax.scan(lambda c, row: (jnp.sin(c + row), c[0]), rows[0], rows)[1]

    rows = np.ones((20, 64), F)
    assert not has_loop_inside(scan, rows)
    assert_same_as_jax(lambda n: lax.fori_loop(0, 9, lambda i, a: a[::-1] + i, n), TABLE)


def test_a_loop_that_one_kernel_cannot_hold_keeps_its_iterations() -> None:
    """The sum asks for each of the 70 numbers, and all that it is made of, for itself."""

    def mixed(number: Any) -> Any:
        def step(i: Any, mixed: Any) -> Any:
            part = mixed
            for _ in range(70):
                part = (part ^ (part >> 1)) * 3
            return mixed + jnp.stack([part * k for k in range(2, 72)]).sum(dtype=np.int32)

        return lax.fori_loop(0, 5, step, number)

    assert not has_loop_inside(mixed, np.int32(7))
    assert_same_as_jax(mixed, np.int32(7))


def test_updates_in_place_take_no_memory_besides_the_result() -> None:
    module = imported(lowered_by_jax(neighbours, np.arange(50, dtype=np.int32)))
    compilation = compile_module(module)
    # The counters of JAX and of the loop.
    assert compilation.assignment.arena_bytes == 2 * ALIGNMENT
    copies = [thunk for thunk in compilation.code.thunks if isinstance(thunk, CopyThunk)]
    assert len(copies) == 1


def test_an_effect_keeps_its_iterations() -> None:
    scalar = Shape.parse("s32[]")
    condition, body = Builder("condition"), Builder("body")
    test = condition.build(ops.lt(condition.parameter(0, scalar), 3))
    state = body.parameter(0, scalar)
    ops.outfeed(state)
    step = body.build(state + 1)

    def loop(x: Op) -> Op:
        return ops.while_(test, step, x)

    thunks = code_of(built(loop, [np.int32(0)])).thunks
    assert any(isinstance(thunk, Jump) for thunk in thunks)

"""Functions of JAX on a server: called as those of `jax.jit`, with the same values."""

import asyncio
import dataclasses
import enum
import functools
import gc
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_client as xc
from xla_contract.errors import (
    ArgumentTypeError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    UnimplementedError,
)

ROW = np.arange(3, dtype=np.float32)
KEY = jax.random.key(3)


class Pair(NamedTuple):
    first: Any
    second: Any


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["weights", "extra"], meta_fields=["name"]
)
@dataclasses.dataclass
class State:
    weights: Any
    extra: Any
    name: str


class Scale(enum.IntEnum):
    TWO = 2


def power(x: Any, n: int = 2, *, scale: Any = 1.0) -> Any:
    return {"x": x**n * scale, "n": None}


def total(*rows: Any, **named: Any) -> Any:
    return sum(rows) + named["z"] - named["a"]


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], dict[str, Any]]] = {
    "trees": (
        lambda state, x: (State(state.weights + x, state.extra, state.name * 2), [x, None]),
        (State(ROW, Pair(jnp.ones(3), (True, None)), "s"), 2),
        {},
        {},
    ),
    "static by number": (power, (ROW, 3), {"scale": 2}, {"static_argnums": 1}),
    "static by its other name": (power, (ROW,), {"n": 3}, {"static_argnums": 1}),
    "static from the end": (lambda x, n: x * n, (ROW, 3), {}, {"static_argnums": (-1,)}),
    "static by name": (power, (ROW, 3), {}, {"static_argnames": ("n", "scale")}),
    "static that is not given": (power, (jnp.int8([3, 4]),), {}, {"static_argnames": "n"}),
    "any number and any names": (total, (ROW, 1, np.ones(3)), {"z": 5, "a": ROW}, {}),
    "weak types": (lambda x, y: (x * 2, x * y), (2.5, jnp.ones(2, jnp.bfloat16)), {}, {}),
    "wide types": (lambda *x: x, (np.ones(2), np.int64(4), np.ones(1, np.uint64), 3 + 1j), {}, {}),
    "keys": (jax.random.bits, (KEY, (2, 3)), {}, {"static_argnums": 1}),
    "new keys": (lambda key: (key, jnp.stack([key, key])), (KEY,), {}, {}),
    "nothing": (lambda: (), (), {}, {}),
    "no arguments": (lambda: jnp.arange(4), (), {}, {}),
    "of jax.numpy": (jnp.sort, (ROW,), {"descending": True}, {"static_argnames": "descending"}),
    "without a signature": (dict, (), {"x": ROW, "y": 2}, {}),
    "enumerated": (lambda x, y: x * y, (Scale.TWO, jnp.ones(2, jnp.bfloat16)), {}, {}),
    "partial": (functools.partial(power, n=3), (ROW,), {}, {"static_argnames": "n"}),
}


def check_equal(found: Any, expected: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert isinstance(ours, xc.Buffer)
        kind = jax.typeof(theirs)
        extended = jnp.issubdtype(kind.dtype, jax.dtypes.extended)
        assert ours.jax_type == (kind.shape, kind.dtype, kind.weak_type)
        value = jax.random.key_data(theirs) if extended else theirs
        assert ours.dtype == value.dtype
        np.testing.assert_allclose(ours.to_numpy(), np.asarray(value), rtol=1e-6)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_call_gives_what_jit_does(client: xc.Client, name: str, wide: bool) -> None:
    function, arguments, named, options = CASES[name]
    with jax.enable_x64(wide):
        remote = client.jit(function, **options)
        expected = jax.jit(function, **options)(*arguments, **named)
        check_equal(remote(*arguments, **named), expected)


def test_results_are_arguments_with_their_types(client: xc.Client) -> None:
    weak = client.jit(lambda x: x * 2)(1.5)
    assert client.jit(lambda x, y: x * y)(weak, jnp.ones(2, jnp.bfloat16)).dtype == jnp.bfloat16
    keys = client.jit(lambda: jax.random.wrap_key_data(np.uint32([[1, 2], [3, 4]])))()
    bits = client.jit(lambda keys: jax.random.key_data(keys[1]))(keys)
    np.testing.assert_array_equal(bits.to_numpy(), [3, 4])


def test_equal_types_share_a_program_and_others_have_their_own(client: xc.Client) -> None:
    traced = []

    @client.jit(static_argnames="n")
    def function(x: Any, n: int = 1) -> Any:
        traced.append(n)
        return jnp.dot(x, x) * n

    for same in (ROW, jnp.asarray(ROW), client.to_device(ROW), np.float64(ROW), ROW):
        function(same)
        assert len(traced) == 1
    assert function.executable(ROW) is function.executable(jnp.asarray(ROW))
    others: list[Callable[[], Any]] = [
        lambda: function(np.ones(4, np.float32)),
        lambda: function(np.ones(3, np.int32)),
        lambda: function(ROW, n=2),
    ]
    with jax.default_matmul_precision("highest"):
        function(ROW)
    for other in others:
        other()
    with jax.enable_x64(True):
        assert function(np.ones(3)).dtype == np.float64
    assert len(traced) == 6
    function.clear_cache()
    function(ROW)
    assert len(traced) == 7


def test_the_programs_that_were_called_last_are_kept(
    client: xc.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xla_client.runs.jax_function._MAX_VERSIONS", 4)
    traced = []
    matrices = {n: np.full((150, 150), n, np.float32) for n in range(9)}

    @client.jit(static_argnums=1)
    def function(x: Any, n: int) -> Any:
        traced.append(n)
        return x * jnp.asarray(matrices[n])[0]

    row = client.to_device(np.ones(150, np.float32))
    for n in range(9):
        function(row, n)
        function(row, 0)
    gc.collect()
    assert traced == [*range(9)]
    assert len(function._constants) == 4
    function(row, 8)
    assert len(traced) == 9
    assert float(function(row, 1)[0]) == 1
    assert traced[9:] == [1]


def test_equal_static_values_of_other_types_have_programs_of_their_own(client: xc.Client) -> None:
    function = client.jit(lambda x, n: x * n if n is not True else x, static_argnums=1)
    for n, dtype in ((1, np.int32), (1.0, np.float32), (True, np.int32)):
        assert function(np.int32(5), n).dtype == dtype
    programs = {function.executable(ROW, n) for n in (1, 1.0, True, 1)}
    assert len(programs) == 3


def test_a_method_is_called_with_its_object(client: xc.Client) -> None:
    class Layer:
        @functools.partial(client.jit, static_argnums=0)
        def double(self, x: Any) -> Any:
            return 2 * x

    np.testing.assert_array_equal(Layer().double(ROW).to_numpy(), 2 * ROW)
    assert isinstance(Layer.double, xc.JaxFunction)


def test_threads_that_call_at_once_compile_once(client: xc.Client) -> None:
    traced = []

    @client.jit
    def add_one(x: Any) -> Any:
        traced.append(x)
        return x + 1

    with ThreadPoolExecutor(8) as threads:
        assert list(map(float, threads.map(add_one, range(32)))) == list(range(1, 33))
    assert len(traced) == 1


def test_a_submitted_run_gives_the_tree_and_its_buffers_are_arguments(client: xc.Client) -> None:
    function = lambda state, x: {"w": state["w"] + x, "n": None}  # noqa: E731
    step = client.jit(function)
    first = step.submit({"w": ROW}, 1)
    second = step.submit(first.buffers, x=2.0)
    expected = jax.jit(function)(jax.jit(function)({"w": ROW}, 1), x=2.0)
    check_equal(second.buffers, expected)
    check_equal(second.result(timeout=100), expected)

    async def awaited() -> Any:
        return await step.submit({"w": ROW}, 3)

    check_equal(asyncio.run(awaited()), function({"w": jnp.asarray(ROW)}, 3))


def test_submitted_runs_donate(client: xc.Client) -> None:
    given = client.to_device(ROW)
    result = client.jit(lambda x: x + 1, donate_argnums=0).submit(given).result()
    assert given.is_deleted
    np.testing.assert_array_equal(result.to_numpy(), ROW + 1)


def test_a_submitted_run_is_waited_for_no_longer_than_asked(client: xc.Client) -> None:
    endless = client.jit(lambda x: jax.lax.while_loop(lambda _: True, lambda n: n + 1, x))
    run = endless.submit(1)
    with pytest.raises(DeadlineExceededError):
        run.result(timeout=0.05)
    assert run.cancel()
    with pytest.raises(CancelledError):
        run.result(timeout=100)


def test_a_server_that_cannot_launch_is_called(plain_client: xc.Client) -> None:
    step = plain_client.jit(lambda x: {"y": x + 1, "x": x}, donate_argnums=0)
    given = plain_client.to_device(ROW)
    run = step.submit(given)
    assert given.is_deleted
    check_equal(run.result(timeout=100), {"y": ROW + 1, "x": ROW})
    check_equal(step.submit(run.buffers["y"]).buffers, {"y": ROW + 2, "x": ROW + 1})
    assert run.profile.compute_time_ns > 0

    async def awaited() -> Any:
        return await step.submit(ROW)

    check_equal(asyncio.run(awaited()), {"y": ROW + 1, "x": ROW})


def test_a_timeout_is_one_of_runs_of_the_same_programs(client: xc.Client) -> None:
    traced: list[Any] = []

    @client.jit
    def count(limit: Any, timeout: Any) -> Any:
        traced.append(limit)
        return jax.lax.while_loop(lambda n: n < limit, lambda n: n + timeout, jnp.int32(0))

    assert int(count(3, timeout=1)) == int(count.with_timeout(100)(3, timeout=1)) == 3
    with pytest.raises(DeadlineExceededError):
        count.with_timeout(0.1)(3, timeout=0)
    with pytest.raises(DeadlineExceededError):
        count.with_timeout(0.1).submit(3, timeout=0).result(timeout=100)
    assert int(count.with_timeout(0.1).with_timeout(None)(3, timeout=1)) == 3
    assert len(traced) == 1


def test_donated_buffers_end_and_the_error_names_them(client: xc.Client) -> None:
    step = client.jit(lambda state, x: {"w": state["w"] + x}, donate_argnums=0)
    first = {"w": client.to_device(ROW)}
    second = step(first, client.to_device(ROW))
    third = client.jit(step.__wrapped__, donate_argnames=("state",))(second, 1)
    assert first["w"].is_deleted
    assert second["w"].is_deleted
    np.testing.assert_array_equal(third["w"].to_numpy(), 2 * ROW + 1)
    said = "<lambda>: a buffer must be alive to be used, got the deleted f32[3]{0} for state['w']"
    with pytest.raises(InvalidArgumentError, match=re.escape(said)) as caught:
        step(first, client.to_device(ROW))
    assert "donate_argnums" in caught.value.hint


def test_large_arrays_of_the_function_are_uploaded_once(
    client: xc.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploaded: list[Any] = []
    upload = client.to_device
    monkeypatch.setattr(client, "to_device", lambda x: uploaded.append(x.shape) or upload(x))
    matrix = jnp.ones((150, 150))
    layer = client.jit(lambda x: x @ matrix)
    for rows in (1, 2, 2):
        assert layer(np.ones((rows, 150), np.float32)).to_numpy().sum() == rows * 150 * 150
    assert uploaded == [(150, 150)]


def test_an_array_of_numpy_has_the_elements_that_it_had_when_a_program_was_compiled(
    client: xc.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploaded: list[float] = []
    upload = client.to_device
    monkeypatch.setattr(client, "to_device", lambda x: uploaded.append(x[0]) or upload(x))
    large = np.zeros(1 << 15, np.float32)
    add = client.jit(lambda x: (x + large)[..., 0])
    types = [np.float32(0), np.int32(0), np.zeros(1, np.float32)]
    found = [float(add(types[0])), float(add(types[1]))]
    large[:] = 1
    found += [float(add(each)) for each in types]
    assert found == [0, 0, 0, 0, 1]
    assert uploaded == [0, 1]


def test_an_exported_function_runs(client: xc.Client) -> None:
    types = {"a": jax.ShapeDtypeStruct((), np.float32)}, jax.ShapeDtypeStruct((3,), np.float32)
    exported = jax.export.export(jax.jit(lambda p, x: [p["a"] * x]))(*types)
    (result,) = client.jit(exported)({"a": np.float32(2)}, ROW)
    np.testing.assert_array_equal(result.to_numpy(), 2 * ROW)


def first_of(batch: Any, *rest: Any, flag: bool = False) -> Any:
    return batch["x"]


def traced_by_vmap(remote: Any) -> Any:
    return jax.vmap(lambda x: remote({"x": x}))(np.ones((2, 3)))


BAD: dict[str, tuple[str, Callable[[Any, xc.Client], Any]]] = {
    "str": ("got str for batch['y'][1]", lambda f, _: f({"x": 1, "y": (2, "a")})),
    "object": ("got object for rest[1]", lambda f, _: f({"x": 1}, 1, object())),
    "dtype": ("got ndarray for batch['x']", lambda f, _: f({"x": np.array(["a"])})),
    "tuple": ("got Buffer for rest[0]", lambda f, c: f({"x": 1}, c.to_device((ROW, ROW)))),
    "traced": ("got a traced float32[3] for batch['x']", lambda f, _: traced_by_vmap(f)),
    "known": (
        "got a traced float32[3] for batch['x']",
        lambda f, _: (f({"x": ROW}), traced_by_vmap(f)),
    ),
    "unhashable": ("must be hashable, got list for flag", lambda f, _: f({"x": 1}, flag=[])),
    "missing": ("first_of: missing a required argument: 'batch'", lambda f, _: f()),
    "64 bits": (
        "a type that JAX has, got f64[2]{0} for batch['x']",
        lambda f, c: (f({"x": np.ones(2)}), f({"x": c.to_device(np.ones(2))})),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_an_argument_that_is_no_array_is_named(client: xc.Client, name: str) -> None:
    said, call = BAD[name]
    remote = client.jit(first_of, static_argnames="flag")
    with pytest.raises((ArgumentTypeError, InvalidArgumentError), match=re.escape(said)) as caught:
        call(remote, client)
    assert caught.value.message.startswith("first_of: ")
    if name == "64 bits":
        assert caught.value.hint.startswith("Upload array.astype('float32')")


def test_an_argument_of_any_name_is_passed_by_name(client: xc.Client) -> None:
    remote = client.jit(lambda self, function: self - function)
    assert remote(self=3.0, function=1.0) == 2
    assert remote.submit(self=3.0, function=2.0).result() == 1
    assert remote.executable(self=3.0, function=2.0) is remote.executable(3.0, 2.0)


def test_errors_of_the_function_are_its_own(client: xc.Client) -> None:
    remote = client.jit(first_of)
    with pytest.raises(KeyError, match="x"):
        remote({"y": 1})
    with pytest.raises(TypeError, match="incompatible shapes"):
        client.jit(lambda x: x + jnp.ones(2))(ROW)


def test_errors_of_jax_name_the_function_and_its_parameter(client: xc.Client) -> None:
    def larger(tree: Any, *, bound: float) -> Any:
        return bound if tree["x"] > bound else tree

    line = larger.__code__.co_firstlineno
    with pytest.raises(jax.errors.TracerBoolConversionError) as caught:
        client.jit(larger)({"x": 1.0}, bound=2.0)
    assert f"the function larger at {__file__}:{line} for jit" in str(caught.value)
    assert "the values of the arguments bound and tree['x']" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"donate_argnums": 1}, "1"),
        ({"static_argnums": (0, -2)}, "-2"),
        ({"static_argnames": "rest"}, "'rest'"),
    ],
)
def test_numbers_and_names_are_those_of_parameters(
    client: xc.Client, options: dict[str, Any], got: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"got {got} for first_of\(batch: Any, \*rest"):
        client.jit(first_of, **options)
    with pytest.raises(ArgumentTypeError, match=r"a function or a jax\.export\.Exported, got 3"):
        client.jit(3)


def printing(x: Any) -> Any:
    jax.debug.print("{}", x)
    return x


@pytest.mark.parametrize(
    "function",
    [
        printing,
        lambda x: jax.pure_callback(np.sin, x, x),
        lambda x: jax.experimental.io_callback(np.sin, x, x, ordered=True),
    ],
    ids=["debug.print", "pure_callback", "io_callback"],
)
def test_calls_back_into_python_are_refused(client: xc.Client, function: Any) -> None:
    with pytest.raises(UnimplementedError, match=r"leave debug\.print, pure_callback"):
        client.jit(function)(ROW)

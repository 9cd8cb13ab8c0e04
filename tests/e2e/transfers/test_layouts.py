"""A value in any layout is an argument on every path, and results are row-major as with jax."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.corpus.jax.programs import lower
from xla_contract.types.layout import Layout
from xla_contract.types.shape import Shape

ROWS, COLUMNS = Layout((1, 0)), Layout((0, 1))
X = np.arange(12, dtype=np.float32).reshape(3, 4)
LARGE = np.arange(2048 * 3072, dtype=np.float32).reshape(2048, 3072)


@pytest.fixture(scope="module", params=["interpreter", "cpu"])
def client(request: pytest.FixtureRequest) -> Iterator[xc.Client]:
    with xc.Local(platform=request.param, devices=2) as client:
        yield client


def transposing(value: np.ndarray) -> xc.Computation:
    """jax's module for `w.T`, whose declared result is column-major."""
    computation = xc.Computation.from_serialized(lower(lambda w: w.T, value))
    assert computation.result.layout == COLUMNS
    return computation


def test_results_are_row_major_unless_asked_for_otherwise(client: xc.Client) -> None:
    square = transposing(X[:, :3])
    run = client.compile(square)
    result = run(X[:, :3])
    assert isinstance(result, xc.Buffer)
    assert run.program_shape.result.layout == result.shape.layout == ROWS
    assert client.adopt(result.handle).shape.layout == ROWS
    np.testing.assert_array_equal(run.run(run(run(X[:, :3]))), X[:, :3].T)
    (parallel,) = client.execute_parallel([xc.Launch(square, (X[:, :3],))])
    assert isinstance(parallel, xc.Buffer)
    assert client.adopt(parallel.handle).shape.layout == ROWS
    requested = client.compile(square, result_layout=COLUMNS)(X[:, :3])
    assert isinstance(requested, xc.Buffer)
    assert client.adopt(requested.handle).shape.layout == COLUMNS


def _called(client: xc.Client, run: xc.Executable, value: xc.Buffer) -> Any:
    return run(value).to_numpy()  # type: ignore[union-attr]


def _run(client: xc.Client, run: xc.Executable, value: xc.Buffer) -> Any:
    return run.run(value)


def _batch(client: xc.Client, run: xc.Executable, value: xc.Buffer) -> Any:
    first, second = run.run_batch([(value,), (value,)])
    np.testing.assert_array_equal(first, second)
    return first


def _donated(client: xc.Client, run: xc.Executable, value: xc.Buffer) -> Any:
    result = run(value, donate=(0,))
    with pytest.raises(xc.InvalidArgumentError):
        value.to_numpy()
    return result.to_numpy()  # type: ignore[union-attr]


def _submitted(client: xc.Client, run: xc.Executable, value: xc.Buffer) -> Any:
    return run.submit(value).result().to_numpy()  # type: ignore[union-attr]


def _pipeline(client: xc.Client, run: xc.Executable, value: xc.Buffer) -> Any:
    pipeline = client.pipeline()
    pipeline.fetch(pipeline.call(run, value))
    (result,) = pipeline.run()
    return result


def _parallel(client: xc.Client, run: xc.Executable, value: xc.Buffer) -> Any:
    result = client.execute(transposing(X), value, device=1)
    return result.to_numpy()  # type: ignore[union-attr]


PATHS = [_called, _run, _batch, _donated, _submitted, _pipeline, _parallel]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__[1:])
def test_an_argument_may_have_another_layout(
    client: xc.Client, path: Callable[[xc.Client, xc.Executable, xc.Buffer], Any]
) -> None:
    run = client.compile(transposing(X))
    columns = client.to_device(xc.Literal.from_numpy(X, Shape.parse("f32[3,4]{0,1}")))
    np.testing.assert_array_equal(path(client, run, columns), X.T)
    turned = client.compile(transposing(X.T), result_layout=COLUMNS)(X.T)
    assert isinstance(turned, xc.Buffer)
    np.testing.assert_array_equal(path(client, run, turned), X.T)


def test_results_in_another_layout_go_on_before_they_are_there(client: xc.Client) -> None:
    there = client.compile(transposing(X), result_layout=COLUMNS)
    back = client.compile(transposing(X.T), result_layout=COLUMNS)
    chain = there.submit(X)
    for _ in range(5):
        chain = there.submit(back.submit(chain))
    result = chain.result()
    assert isinstance(result, xc.Buffer)
    np.testing.assert_array_equal(result.to_numpy(), X.T)
    pipeline = client.pipeline()
    pipeline.fetch(pipeline.call(there, pipeline.call(back, pipeline.call(there, X))))
    np.testing.assert_array_equal(pipeline.run()[0], X.T)


def test_large_values_through_shared_memory_have_any_layout(client: xc.Client) -> None:
    run = client.compile(transposing(LARGE))
    columns = client.to_device(xc.Literal.from_numpy(LARGE, Shape.parse("f32[2048,3072]{0,1}")))
    np.testing.assert_array_equal(run.run(columns), LARGE.T)
    np.testing.assert_array_equal(run(columns, donate=(0,)).to_numpy(), LARGE.T)  # type: ignore[union-attr]


def test_another_type_or_size_is_refused_as_before(client: xc.Client) -> None:
    run = client.compile(transposing(X))
    for other in (X.T, X.astype(np.int32)):
        with pytest.raises(xc.InvalidArgumentError, match=r"for f32\[3,4\]\{1,0\}"):
            run(client.to_device(other))


def test_training_by_adam_is_jax_s_own_over_forty_steps(client: xc.Client) -> None:
    import jax
    import jax.numpy as jnp

    def loss_of(weights: Any, x: Any, y: Any) -> Any:
        hidden = jnp.tanh(x @ weights["in"].T + weights["bias"])
        return jnp.mean((hidden @ weights["out"] - y) ** 2)

    def step(state: Any, x: Any, y: Any) -> Any:
        weights, first, second, count = state
        loss, slopes = jax.value_and_grad(loss_of)(weights, x, y)
        count = count + 1
        first = jax.tree.map(lambda m, g: 0.1 * g + 0.9 * m, first, slopes)
        second = jax.tree.map(lambda v, g: 0.001 * g * g + 0.999 * v, second, slopes)
        weights = jax.tree.map(
            lambda w, m, v: (
                w - 0.01 * (m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.999**count)) + 1e-8)
            ),
            weights,
            first,
            second,
        )
        return (weights, first, second, count), loss

    random = np.random.default_rng(3)

    def normal(*sizes: int) -> np.ndarray:
        return random.normal(size=sizes).astype(np.float32)

    weights = {"in": normal(16, 8), "bias": normal(16), "out": normal(16, 2)}
    zeros = jax.tree.map(np.zeros_like, weights)
    theirs: Any = (weights, zeros, zeros, np.float32(0))
    x, y = normal(32, 8), normal(32, 2)
    computation = xc.Computation.from_serialized(lower(step, theirs, x, y))
    declared = computation.result.tuple_shapes
    assert any(part.layout == COLUMNS for part in declared), "jax declares no other layout here"
    run, compiled = client.compile(computation), jax.jit(step)
    ours: Any = [client.to_device(np.asarray(leaf)) for leaf in jax.tree.leaves(theirs)]
    for number in range(40):
        donated = range(len(ours)) if number % 2 else ()
        *ours, loss = run(*ours, x, y, donate=donated)
        theirs, expected = compiled(theirs, x, y)
        assert float(loss.to_numpy()) == pytest.approx(float(expected), rel=1e-4)
    for mine, other in zip(ours, jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(mine.to_numpy(), np.asarray(other), rtol=1e-3, atol=1e-4)

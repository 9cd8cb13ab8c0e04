"""The text XLA writes, before and after its optimisations, runs and gives what jax gives."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.corpus.hlo_text import parse_hlo
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module
from xla_server.ir.text.parser import parse_module

X = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
PLACES = np.array([3, 1, 2], np.int32)


def loop(x: Any, y: Any) -> Any:
    return lax.fori_loop(0, 3, lambda i, a: jnp.tanh(a @ y) + jnp.sort(a, axis=0), x)


def branches(x: Any) -> Any:
    return lax.cond(x[0, 0] > 0, lambda a: a + 1, lambda a: a * 2, x), lax.switch(
        2, [lambda a: a, lambda a: -a, lambda a: a.sum(0)[None] + a], x
    )


def moves(x: Any, i: Any) -> Any:
    return x[i], x.at[i].add(1.0), jnp.pad(x[1:3, ::2], 1), jnp.flip(x, 1), jnp.roll(x, 2)


def windows(x: Any) -> Any:
    image = x.reshape(1, 4, 4, 1)
    return lax.conv_general_dilated(
        image,
        image[:, :2, :2, :].reshape(2, 2, 1, 1),
        (1, 1),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    ), lax.reduce_window(x, -np.inf, lax.max, (2, 2), (2, 2), "VALID")


def statistics(x: Any) -> Any:
    return jax.nn.softmax(x, 1), x.var(0), x.argmax(1), jax.lax.top_k(x, 2)


def factors(x: Any) -> Any:
    return jnp.linalg.cholesky(x @ x.T + 4 * jnp.eye(4)), jnp.fft.rfft(x)


def drawn(x: Any) -> Any:
    return jax.random.normal(jax.random.key(0), (3, 2)) + x[:3, :2]


CASES: dict[Callable[..., Any], tuple[Any, ...]] = {
    loop: (X, X / 4),
    branches: (X,),
    moves: (X, PLACES),
    windows: (X,),
    statistics: (X,),
    factors: (X,),
    drawn: (X,),
}


def check(text: str, function: Callable[..., Any]) -> None:
    arguments = CASES[function]
    module = parse_module(text)
    value: Any = evaluate(module, list(arguments), check_values=True)
    ours = jax.tree.leaves(value)
    theirs = jax.tree.leaves(jax.jit(function)(*arguments))
    assert len(ours) == len(theirs)
    for mine, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_before_optimisation(function: Callable[..., Any]) -> None:
    lowered = jax.jit(function).lower(*CASES[function])
    check(lowered.compiler_ir("hlo").as_hlo_text(), function)


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_after_optimisation(function: Callable[..., Any]) -> None:
    check(jax.jit(function).lower(*CASES[function]).compile().as_text(), function)


def test_operands_with_their_shapes_and_comments() -> None:
    text = """HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}, num_partitions=2
// one line
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(f32[] a, f32[] %b) }
ENTRY %main (x: f32[2]) -> f32[2] { /* many
lines */
  %x = f32[2]{0} parameter(0), origin={{"a" {0}}}, statistics={visualizing_index=0,a=1}
  %z = f32[] constant(0)
  %t = (f32[2]{0}, /*index=1*/f32[]) tuple(f32[2]{0} %x, /*index=1*/ f32[] %z)
  %g = f32[] get-tuple-element((f32[2]{0}, f32[]) %t), index=1
  %r = f32[] reduce(f32[2]{0} %x, f32[] %g), to_apply=%add, dimensions={0}
  ROOT %b.1 = f32[2]{0} broadcast(f32[] %r), dimensions={}
}"""
    module = parse_module(text)
    assert np.array_equal(evaluate(module, [np.array([1, 2], np.float32)]), [3, 3])
    again = import_module(export_module(module))
    assert np.array_equal(evaluate(again, [np.array([1, 2], np.float32)]), [3, 3])


def test_jaxlib_agrees_on_what_text_says() -> None:
    text = """HloModule m
ENTRY e { x = f32[2,3] parameter(0)
  y = f32[3,2] parameter(1)
  ROOT d = f32[2,2] dot(x, y), rhs_contracting_dims={0}, lhs_contracting_dims={1} }"""
    ours, theirs = parse_module(text), import_module(parse_hlo(text))
    assert ours.entry.root.attributes == theirs.entry.root.attributes

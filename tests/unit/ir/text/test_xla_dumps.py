"""The text XLA writes, before and after its optimisations, runs and gives what jax gives."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.checked_evaluation import evaluate_checked
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
    value: Any = evaluate_checked(module, list(arguments))
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


INLINE = """HloModule m
ENTRY e { x = f32[2,3] parameter(0)
  z = f32[] constant(0)
  f = f32[2,3] fusion(x), kind=kLoop, calls={
    x = f32[2,3] parameter(0)
    ROOT doubled = f32[2,3] add(x, x)
  }
  r = f32[2] reduce(f, z), dimensions={1}, to_apply={ x = f32[] parameter(0)
    %y = f32[] parameter(1)
    ROOT _ = f32[] call(x, y), to_apply={ ROOT p = f32[] parameter(0) q = f32[] parameter(1) } }
  n = s32[] constant(1)
  ROOT b = f32[2] conditional(n, r, r), branch_computations={
    { ROOT a = f32[2] parameter(0) }, { a = f32[2] parameter(0) ROOT c = f32[2] negate(a) } }
}
"""


def test_a_called_computation_may_be_written_where_it_is_called() -> None:
    ours, theirs = parse_module(INLINE), import_module(parse_hlo(INLINE))
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    for module in (ours, theirs, import_module(export_module(ours))):
        assert len(module.computations) == 6
        np.testing.assert_array_equal(evaluate(module, [x]), [0, 0])


UNNAMED = "to_apply={ ROOT a = f32[] parameter(0) }"


@pytest.mark.parametrize(("caller", "name"), [("f", "_"), ("_", "_.1")])
def test_an_unnamed_computation_takes_no_name_of_its_caller(caller: str, name: str) -> None:
    text = f"{caller} {{ x = f32[] parameter(0) ROOT y = f32[] call(x), {UNNAMED} }}"
    module = parse_module(text)
    assert [computation.name for computation in module.computations] == [name, caller]
    assert evaluate(module, [np.float32(2)]) == 2


def test_an_unnamed_computation_takes_no_name_of_a_later_one() -> None:
    text = f"""f {{ x = f32[] parameter(0) ROOT y = f32[] call(x), {UNNAMED} }}
_ {{ x = f32[] parameter(0) ROOT y = f32[] negate(x) }}
ENTRY e {{
  x = f32[] parameter(0)
  y = f32[] call(x), to_apply=f
  ROOT z = f32[] call(y), to_apply=_
}}
"""
    module = parse_module(text)
    assert [computation.name for computation in module.computations] == ["_.1", "f", "_", "e"]
    assert evaluate(module, [np.float32(2)]) == -2


def test_a_computation_where_it_is_called_may_begin_with_a_comment() -> None:
    text = """HloModule m
ENTRY e { x = f32[] parameter(0)
  ROOT y = f32[] call(x), to_apply={ /* of one
    instruction */ ROOT a = f32[] parameter(0) } }"""
    for module in (parse_module(text), import_module(parse_hlo(text))):
        assert len(module.computations) == 2
        assert evaluate(module, [np.float32(2)]) == 2


def test_parameters_of_a_signature_do_not_matter() -> None:
    text = """HloModule m
f (y s32[7], /*index=1*/ z: (f32[])) -> f32[2] { ROOT x = f32[2] parameter(0) }
ENTRY e () -> f32[2] { x = f32[2] parameter(0) ROOT y = f32[2] call(x), to_apply=f }"""
    ours, theirs = parse_module(text), import_module(parse_hlo(text))
    for mine, part in zip(ours.computations, theirs.computations, strict=True):
        (shape,), (other,) = (c.program_shape.parameters for c in (mine, part))
        assert shape.compatible(other)


def test_a_string_may_have_several_lines() -> None:
    text = """HloModule m
ENTRY e { x = f32[2] parameter(0)
  ROOT y = f32[2] custom-call(x), custom_call_target="Sharding", backend_config="{
    a = \\"b\\"
  }" }"""
    ours, theirs = parse_module(text), import_module(parse_hlo(text))
    assert ours.entry.root.attributes == theirs.entry.root.attributes

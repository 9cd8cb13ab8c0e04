"""Loops over quotients and remainders of an index, for repeated elements and tiles."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported, pairs
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.lower.lowering import kernels_of

_RANDOM = np.random.default_rng(0)
X = _RANDOM.standard_normal((40, 96)).astype(np.float32)
LONG = _RANDOM.standard_normal((40, 288)).astype(np.float32)

Program = tuple[Callable[..., Any], tuple[Any, ...]]

SPLIT: dict[str, Program] = {
    "tile": (lambda x: jnp.tile(x, [1, 3]) + 1, (X,)),
    "repeat": (lambda x: jnp.repeat(x, 3, 1) + 1, (X,)),
    "aligned part of a line": (lambda x: jnp.repeat(x.reshape(-1), 4)[400:] * 2, (X,)),
    "with an operand of its own": (lambda x, y: jnp.tile(x, [1, 3]) * y, (X, LONG)),
    "a test of the quotient": (
        lambda x: jnp.tile(jnp.repeat(jnp.roll(x, 7, 1), 4, 1), [3, 1]),
        (X,),
    ),
    "a test of the remainder": (lambda x: jnp.tile(jnp.roll(x, 7, 1), [1, 3]) + 1, (X,)),
    "stacked": (lambda x, y: jnp.concatenate([jnp.tile(x, [1, 3]) * 2, y + 1]), (X, LONG)),
}
WHOLE: dict[str, Program] = {
    "two divisors": (lambda x: jnp.tile(x, [1, 3]) + jnp.repeat(x, 3, 1), (X,)),
    "an offset": (lambda x: jnp.repeat(x.reshape(-1), 4)[401:] * 2, (X,)),
    "a costly function": (lambda x: jnp.tanh(jnp.tile(x, [1, 3])), (X,)),
    "a test": (lambda x, y: jnp.where(np.arange(288) < y, jnp.tile(x, [1, 3]), y), (X, LONG)),
}


def _text_of(program: Program) -> str:
    """The kernels of a program, whose results are the interpreter's."""
    function, arguments = program
    module = imported(lower(function, *arguments))
    for ours, expected in pairs(module, arguments):
        np.testing.assert_allclose(ours, expected, rtol=1e-6)
    return "\n".join(thunk.source for thunk in kernels_of(compile_module(module).code))


@pytest.mark.parametrize("name", SPLIT)
def test_no_index_is_divided_in_the_innermost_loop(name: str) -> None:
    loops = _text_of(SPLIT[name]).split("for ")
    assert not any("whole_" in loop for loop in loops if "load_" in loop)


@pytest.mark.parametrize("name", WHOLE)
def test_other_indices_are_divided(name: str) -> None:
    assert "whole_" in _text_of(WHOLE[name])


def _in_turn(*rows: Any) -> Any:
    return jnp.stack(rows, 1).reshape(-1, rows[0].shape[1])


ROWS: dict[str, tuple[Program, bool]] = {
    "two operands": ((lambda x: _in_turn(x, x * 2), (X,)), True),
    "few rows": ((lambda x: _in_turn(x[:4], x[4:8] + 1), (X,)), True),
    "groups": (
        (lambda x, y: _in_turn(x, x * 2).reshape(10, 8, 96) * y[:10, None, :96], (X, LONG)),
        True,
    ),
    # Their own index is tested, too.
    "edges": ((lambda x: jnp.pad(_in_turn(x, x * 2)[3:], ((3, 0), (0, 0))), (X,)), False),
    "a costly function": ((lambda x: jnp.tanh(_in_turn(x, x * 2)), (X,)), False),
}
"""Rows of several operands in turn, and whether each operand has a loop."""


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_two_operands_in_turn_are_two_loops(name: str) -> None:
    program, is_split = ROWS[name]
    text = _text_of(program)
    assert ("select(" in text) is not is_split
    assert not is_split or text.count("store_f32(") == 2

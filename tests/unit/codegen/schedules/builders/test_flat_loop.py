"""One loop over all elements where rows are shorter than vectors of costly functions."""

import re
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported, pairs
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.target.machine import Machine
from xla_server.target.target import Target

_RANDOM = np.random.default_rng(0)

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def _drawn(*dimensions: int) -> Any:
    return (_RANDOM.random(dimensions) + 0.5).astype(np.float32)


def _complex(*dimensions: int) -> Any:
    return (_drawn(*dimensions) + 1j * _drawn(*dimensions)).astype(np.complex64)


def _exponentials(x: Any, y: Any) -> Any:
    return jnp.exp(x - y)


FLAT: dict[str, Program] = {
    "a broadcast in the middle": (jnp.power, (_drawn(31, 11, 2), _drawn(31, 1, 2))),
    "a broadcast in front": (jnp.power, (_drawn(31, 11, 2), _drawn(11, 1))),
    "broadcasts on both sides": (jnp.power, (_drawn(31, 1, 2), _drawn(31, 11, 1))),
    "rows of five": (jnp.power, (_drawn(40, 5), _drawn(40, 1))),
    "rows of a power of two": (jnp.power, (_drawn(40, 4), _drawn(1, 4))),
    "exponentials of rows of three": (_exponentials, (_drawn(40, 3), _drawn(40, 1))),
    "four dimensions": (_exponentials, (_drawn(3, 5, 7, 3), _drawn(3, 1, 7, 1))),
    "complex numbers": (_exponentials, (_complex(30, 5, 2), _complex(30, 1, 2))),
}
BY_ROWS: dict[str, Program] = {
    "cheap operations": (jnp.add, (_drawn(31, 11, 2), _drawn(31, 1, 2))),
    "divisions": (jnp.divide, (_drawn(40, 3), _drawn(40, 1))),
    "rows of whole vectors": (jnp.power, (_drawn(40, 16), _drawn(40, 1))),
    "vectors across rows": (jnp.power, (_drawn(3, 64, 2), _drawn(3, 1, 2))),
    "elements apart": (lambda x, y: jnp.exp(x.T - y), (_drawn(3, 40), _drawn(40, 1))),
    "a sum": (lambda x, y: jnp.exp(x - y).sum(-1), (_drawn(40, 9, 3), _drawn(40, 9, 1))),
}


def _text_of(program: Program, machine: Machine) -> str:
    function, arguments = program
    code = compile_module(imported(lower(function, *arguments)), target=Target.of(machine)).code
    return "\n".join(thunk.source for thunk in kernels_of(code))


@pytest.mark.parametrize("machine", [Machine.avx512(), Machine.avx2()])
@pytest.mark.parametrize("name", FLAT)
def test_short_rows_of_costly_functions_are_one_loop(name: str, machine: Machine) -> None:
    text = _text_of(FLAT[name], machine)
    assert len(re.findall(r"\bfor ", text)) == 1
    assert "narrow_" in text


@pytest.mark.parametrize("name", BY_ROWS)
def test_other_rows_have_loops_of_their_own(name: str) -> None:
    assert "narrow_" not in _text_of(BY_ROWS[name], Machine.avx512())


@pytest.mark.parametrize("name", [*FLAT, *BY_ROWS])
def test_results_are_the_interpreters(name: str) -> None:
    function, arguments = (FLAT | BY_ROWS)[name]
    for ours, expected in pairs(imported(lower(function, *arguments)), arguments):
        np.testing.assert_allclose(ours, expected, rtol=1e-6)

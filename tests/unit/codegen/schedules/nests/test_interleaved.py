"""Loops over what is between padding, which compute a whole period of elements at once."""

import re
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported, interpreted, on_cpu
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.lower.lowering import kernels_of

_RANDOM = np.random.default_rng(0)
_A = _RANDOM.integers(-99, 99, (6, 48)).astype(np.float32)
_B = _RANDOM.integers(-99, 99, (6, 48)).astype(np.float32)


def _divides_an_index(text: str) -> bool:
    """Return whether a loop inside of a work item takes a remainder of its variable."""
    return re.search(r"whole_mod\([^t]*\bi\d", text) is not None


def _zip(a: Any, b: Any, low: int = 1) -> Any:
    pads = (((0, 0, 0), (0, 1, 1)), ((0, 0, 0), (low, 1 - low, 1)))
    return lax.pad(a, np.float32(0), pads[0]) + lax.pad(b, np.float32(0), pads[1])


def _of_four(a: Any, b: Any) -> Any:
    return _zip(_zip(a, b), _zip(b * 2, a + 1))


def _with_a_quarter(a: Any, b: Any) -> Any:
    return lax.pad(a, b[0, 0], ((0, 0, 0), (1, 2, 3))) * 2


def _of_odd_length(a: Any, b: Any) -> Any:
    return lax.pad(a, b[0, 0], ((0, 0, 0), (0, 0, 1)))


def _of_odd_length_in_threes(a: Any, b: Any) -> Any:
    return lax.pad(a, b[0, 0], ((0, 0, 0), (1, 1, 2))) * 2


def _two_results(a: Any, b: Any) -> Any:
    both = _zip(a, b)
    return both + 1, both * 2


def _of_rows(a: Any, b: Any) -> Any:
    return lax.pad(a, b[0, 0], ((0, 1, 1), (0, 0, 0)))


PROGRAMS = {
    "two": (_zip, True),
    "four": (_of_four, True),
    "quarter": (_with_a_quarter, True),
    "two results": (_two_results, True),
    # The last iteration has fewer elements.
    "odd length": (_of_odd_length, True),
    "odd length in threes": (_of_odd_length_in_threes, True),
    # There is one value for each row.
    "rows": (_of_rows, True),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_elements_and_whether_loops_divide_no_index(name: str) -> None:
    function, is_free = PROGRAMS[name]
    module = imported(lower(function, _A, _B))
    texts = [thunk.source for thunk in kernels_of(compile_module(module).code)]
    assert is_free is not any(_divides_an_index(text) for text in texts)
    for found, wanted in zip(on_cpu(module, [_A, _B]), interpreted(module, [_A, _B]), strict=True):
        assert_equal_bits(found, wanted)


@pytest.mark.parametrize("shape", [(4, 64), (40, 67), (2, 527), (4, 78)])
def test_an_associative_scan_is_done_without_divisions(shape: tuple[int, int]) -> None:
    x = _RANDOM.integers(-9, 9, shape).astype(np.float32)

    def scanned(x: Any) -> Any:
        return lax.associative_scan(jnp.add, x, axis=1)

    module = imported(lower(scanned, x))
    (thunk, *_) = [
        thunk
        for thunk in reversed(kernels_of(compile_module(module).code))
        if thunk.writes[0].shape.dimensions == shape
    ]
    assert not _divides_an_index(thunk.source)
    assert_equal_bits(on_cpu(module, [x])[0], np.cumsum(x, 1))

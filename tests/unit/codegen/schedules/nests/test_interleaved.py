"""Neighbours in one iteration: as many as padding repeats after, and two or three reductions."""

import re
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported, interpreted, on_cpu, texts_of
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


def _points(*sizes: int, dtype: Any = np.float32) -> Any:
    return _RANDOM.integers(-9, 9, sizes).astype(dtype)


def _differences(x: Any) -> Any:
    return (x[None] * 2 - x[:, None]).sum(1)


REDUCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "sums": (lambda x: x.sum(1), (_points(6, 70, 3),), 3),
    "extremes": (lambda x: jnp.abs(x).max(1), (_points(6, 70, 2),), 2),
    "integers": (lambda x: x.sum((1, 2)), (_points(2, 3, 35, 3, dtype=np.int32),), 3),
    "outer loops that do not merge": (
        lambda x: x.transpose(1, 0, 2, 3).sum(2),
        (_points(5, 6, 70, 3),),
        3,
    ),
    "two results": (lambda x: (x.sum(1), (x * x).sum(1)), (_points(6, 70, 3),), 6),
    "differences": (_differences, (_points(70, 3),), 3),
    "vectors": (lambda x: x.sum(1), (_points(6, 70, 4),), 1),
    "positions": (lambda x: x.argmax(1), (_points(6, 70, 3),), 2),
    "rows": (lambda x: x.sum(2), (_points(6, 3, 70),), 1),
    "one row": (lambda x: x.sum(0), (_points(70, 3),), 1),
    "once for a row": (
        lambda x, y: x.sum(1) + y.sum(1)[:, None],
        (_points(6, 70, 3), _points(6, 70)),
        1,
    ),
}
"""Programs, their arguments, and the stores of an iteration of the kernel's last loop."""


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_few_neighbours_share_a_loop(name: str) -> None:
    function, arguments, count = REDUCTIONS[name]
    module = imported(lower(function, *arguments))
    assert len(re.findall(r" store_\w+\(", texts_of(module)[-1])) == count
    found = zip(on_cpu(module, arguments), interpreted(module, arguments), strict=True)
    for ours, expected in found:
        assert_equal_bits(ours, expected)


def test_reductions_of_few_neighbours_have_the_same_work_items() -> None:
    function, arguments, _ = REDUCTIONS["outer loops that do not merge"]
    code = compile_module(imported(lower(function, *arguments))).code
    assert [thunk.work_items for thunk in kernels_of(code)] == [6 * 5]

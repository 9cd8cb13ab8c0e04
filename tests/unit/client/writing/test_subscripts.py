"""`x[...]`, against numpy's."""

from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.unit.client.writing.running import run
from xla_client import Builder

X = np.arange(2 * 3 * 5, dtype=np.int32).reshape(2, 3, 5)
INDICES: list[Any] = [
    np.s_[0], np.s_[-1], np.s_[1, 2], np.s_[1, 2, 3], np.s_[...], np.s_[..., 0], np.s_[0, ..., -1],
    np.s_[:], np.s_[::2], np.s_[:, 1:], np.s_[:, :-1, 1::2], np.s_[::-1], np.s_[:, ::-2, 4:1:-1],
    np.s_[None], np.s_[:, None, 1], np.s_[..., None], np.s_[None, 0, None, ..., None],
    np.s_[5:], np.s_[:, 2:1], np.s_[:, :, 10:0:-3], np.s_[np.int64(1)], np.s_[:, [2, 0, -1]],
    np.s_[[1, 0]], np.s_[..., np.array([[0, 1], [-1, 2]])], np.s_[:, [1], ::2], np.s_[()],
]  # fmt: skip


@pytest.fixture(scope="module")
def results(target: str) -> dict[int, Any]:
    with xc.connect(target) as client:
        return dict(enumerate(run(client, lambda b, x: [x[index] for index in INDICES], X)))


@pytest.mark.parametrize("number", range(len(INDICES)), ids=lambda n: str(INDICES[n]))
def test_static_indices_are_those_of_numpy(results: dict[int, Any], number: int) -> None:
    expected = X[INDICES[number]]
    assert results[number].shape == expected.shape
    np.testing.assert_array_equal(results[number], expected)


def test_indices_that_the_run_finds(client: xc.Client) -> None:
    def write(b: Builder, x: xc.Op, i: xc.Op, j: xc.Op, n: xc.Op) -> Any:
        wide = n.reshape(2, 1)
        return (
            x[i],
            x[i, j],
            x[:, j, ::-1],
            x[1:, i, None],
            x[n],
            x[:, n],
            x[i, n, 1:],
            x[..., wide],
        )

    n = np.int32([2, 0])
    results = run(client, write, X, np.int32(1), np.uint8(2), n)
    expected = [
        X[1], X[1, 2], X[:, 2, ::-1], X[1:, 1, None], X[np.minimum(n, 1)], X[:, n], X[1, n, 1:],
        X[..., n[:, None]],
    ]  # fmt: skip
    for result, wanted in zip(results, expected, strict=True):
        assert result.shape == wanted.shape
        np.testing.assert_array_equal(result, wanted)


def test_indices_outside_are_moved_to_the_edge(client: xc.Client) -> None:
    def write(b: Builder, x: xc.Op, i: xc.Op) -> Any:
        return x[i], x[-i], x[:, i.reshape(1)]

    results = run(client, write, X, np.int32(9))
    for result, wanted in zip(results, [X[1], X[0], X[:, [2]]], strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_a_whole_array_is_itself() -> None:
    x = Builder("program").parameter(0, "f32[2,3]")
    assert x[...] is x
    assert x[:, :] is x
    assert x[0:9] is x


def test_elements_of_tuples_are_the_values_that_were_put_in() -> None:
    builder = Builder("program")
    x = builder.parameter(0, "f32[2,3]")
    pair = builder.parameter(1, "(f32[2], s32[])")
    assert xc.ops.tuple(x, x)[-1] is x
    assert str(pair[-1].shape) == "s32[]"

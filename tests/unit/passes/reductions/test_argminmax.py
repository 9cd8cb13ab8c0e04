"""Arguments of the maximum and minimum of rows, split into two reductions."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported
from tests.unit.passes.passing import assert_kept, opcodes, passed, rewritten
from xla_server.ir.module import HloModule
from xla_server.passes.reductions.argminmax import ArgumentOfExtremum
from xla_server.passes.simplify.call_inliner import CallInliner
from xla_server.passes.simplify.dead_code import DeadCode
from xla_server.target.machine import Machine
from xla_server.target.target import Target

CPU, GPU = Target.of(Machine.host()), Target.of(Machine.cuda("sm_90"))
_RANDOM = np.random.default_rng(0)
ROWS = np.round(_RANDOM.standard_normal((30, 17)), 1).astype(np.float32)
ROWS[3, 4] = ROWS[3, 9] = ROWS[5, 0] = np.nan
ROWS[6] = -np.inf
ROWS[7] = np.inf
ROWS[8] = 0
ROWS[8, 3:] = -0.0
WHOLE = _RANDOM.integers(-4, 4, (30, 17)).astype(np.int32)
WHOLE[4] = np.iinfo(np.int32).min
WHOLE[5] = np.iinfo(np.int32).max


def _split_programs() -> dict[str, tuple[Callable[..., Any], Any]]:
    return {
        "largest": (lambda x: lax.argmax(x, 1, jnp.int32), ROWS),
        "smallest": (lambda x: lax.argmin(x, 1, jnp.int32), ROWS),
        "whole": (lambda x: lax.argmax(x, 1, jnp.int32), WHOLE),
        "smallest_whole": (lambda x: lax.argmin(x, 1, jnp.uint8), WHOLE),
        "unsigned": (lambda x: lax.argmax(x, 1, jnp.int32), WHOLE.astype(np.uint8)),
        "half": (lambda x: lax.argmax(x, 1, jnp.int32), ROWS.astype(np.float16)),
        "vector": (lambda x: lax.argmax(x, 0, jnp.int32), ROWS[9]),
        "row_of_one_column": (lambda x: lax.argmin(x, 1, jnp.int32), ROWS[:, :, None]),
    }


def _inlined(function: Callable[..., Any], *arguments: Any) -> HloModule:
    """Return the program as the pass gets it: without calls and unused values."""
    module = imported(lower(function, *arguments))
    CallInliner().apply(module)
    DeadCode().apply(module)
    return module


@pytest.mark.parametrize(
    "name",
    [
        *("largest", "smallest", "whole", "smallest_whole"),
        *("unsigned", "half", "vector", "row_of_one_column"),
    ],
)
def test_rows_are_split(name: str) -> None:
    function, rows = _split_programs()[name]
    module = _inlined(function, rows)
    after = rewritten(module, ArgumentOfExtremum(CPU), arguments=[rows])
    found = opcodes(after)
    assert found["reduce"] == 2
    assert "get-tuple-element" not in found


@pytest.mark.parametrize("shape", [(30, 17), (5, 6, 17)])
def test_columns_are_split_for_a_gpu_alone(shape: tuple[int, ...]) -> None:
    x = np.resize(ROWS, shape)
    module = _inlined(lambda x: lax.argmax(x, len(shape) - 2, jnp.int32), x)
    passed(module, ArgumentOfExtremum(CPU), fires=False)
    assert opcodes(rewritten(module, ArgumentOfExtremum(GPU), arguments=[x]))["reduce"] == 2


def _pairs(change: str) -> Callable[..., Any]:
    """A reduction of pairs that differs from an argument of the maximum in one respect."""

    def reducer(one: Any, other: Any) -> Any:
        (a, i), (b, j) = one, other
        wins = (a >= b if change == "direction" else a > b) | (
            jnp.isinf(a) if change == "no_nan" else a != a
        )
        ties = (a == b) & (i > j if change == "last" else i < j)
        stays = wins | ties
        if change == "exchanged":
            return jnp.where(wins, b, a), jnp.where(stays, i, j)
        return jnp.where(wins, a, b), jnp.where(stays, i, j)

    def program(x: Any) -> Any:
        indices = lax.broadcasted_iota(jnp.int32, x.shape, 0 if change == "other" else 1)
        if change == "doubled":
            indices = indices * 2
        first = (
            jnp.float32(0 if change == "value" else -np.inf),
            jnp.int32(3 if change == "index" else 0),
        )
        dimension = 0 if change == "columns" else 1
        value, index = lax.reduce((x, indices), first, reducer, (dimension,))
        return (value, index) if change == "both" else index

    return program


@pytest.mark.parametrize(
    "change",
    [
        *("direction", "no_nan", "last", "exchanged", "other", "doubled", "value", "index"),
        *("columns", "both"),
    ],
)
def test_is_left(change: str) -> None:
    passed(_inlined(_pairs(change), ROWS), ArgumentOfExtremum(CPU), fires=False)


def test_the_same_pairs_unchanged_are_split() -> None:
    module = _inlined(_pairs("nothing"), ROWS)
    assert_kept(module, passed(module, ArgumentOfExtremum(CPU)), [ROWS])

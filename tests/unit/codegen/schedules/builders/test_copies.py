"""Loops that are copies of contiguous elements."""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.jax.programs import lower
from tests.unit.codegen.compiled import imported, on_cpu
from tests.unit.codegen.schedules.graphs import function, load, store
from xla_server.codegen.schedules.builders.copies import CopiedRun, InnerLoops
from xla_server.ir.analysis.affine import Affine, Computed, Variable, variable

LOOP = Variable(5, "i")


def _copied(read: Affine, written: Affine) -> CopiedRun | None:
    return CopiedRun.of(InnerLoops((LOOP,), (store(written, load(read)),)))


def test_a_loop_from_contiguous_elements_to_contiguous_ones_is_a_copy() -> None:
    at = variable(LOOP)
    copy = _copied(at + 7, at + 3)
    assert copy is not None
    assert (copy.count, copy.byte_size) == (5, 20)
    assert (copy.load.offset, copy.store.offset) == (Affine(7), Affine(3))


def test_other_loops_are_no_copies() -> None:
    at = variable(LOOP)
    assert _copied(at * 2, at) is None
    assert _copied(at, at * -1 + 4) is None
    assert _copied(Affine(7), at) is None
    assert CopiedRun.of(InnerLoops((LOOP,), (store(at, function("exp_f32", load(at))),))) is None
    # An element of a row that an index of its own chooses.
    chosen = variable(Computed(load(at, argument=1), 0, 9)) * 5
    assert _copied(chosen + at, at) is None
    pair = (store(at, load(at)), store(at + 5, load(at)))
    assert CopiedRun.of(InnerLoops((LOOP,), pair)) is None


def test_a_copy_goes_on_where_both_sides_do() -> None:
    at = variable(LOOP)
    first, following, apart = (_copied(at + n, at + m) for n, m in ((0, 0), (5, 5), (6, 5)))
    assert first is not None
    assert following is not None
    assert apart is not None
    longer = first.extended(following)
    assert longer == dataclasses.replace(first, count=10)
    assert first.extended(apart) is None


@pytest.mark.parametrize("dtype", ["float32", "int16", "complex64", "int8", "bool", "bfloat16"])
@pytest.mark.parametrize("run", [3, 5, 7, 16, 17])
def test_transposed_runs_of_any_type_keep_their_bits(dtype: str, run: int) -> None:
    x = np.random.default_rng(run).integers(-100, 100, (23, 19, run)).astype(jnp.dtype(dtype))

    def moved(x: Any) -> Any:
        return x.transpose(1, 0, 2)

    assert_equal_bits(on_cpu(imported(lower(moved, x)), [x])[0], moved(x))


@pytest.mark.parametrize("columns", [3, 12, 300])
@pytest.mark.parametrize("padding", [0, 3], ids=["rows", "pieces"])
def test_each_column_is_read_from_a_row_of_its_own(columns: int, padding: int) -> None:
    random = np.random.default_rng(columns)
    x = random.standard_normal((40, columns)).astype(np.float32)
    rows = random.integers(0, 40, (30, columns)).astype(np.int32)

    def chosen(x: Any, rows: Any) -> Any:
        found = jnp.take_along_axis(x, rows, 0, mode="clip")
        return jnp.pad(found, ((0, padding), (0, 0)))

    module = imported(lower(chosen, x, rows))
    assert_equal_bits(on_cpu(module, [x, rows])[0], chosen(x, rows))

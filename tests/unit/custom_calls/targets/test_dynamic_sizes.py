"""PadToStatic and SliceToDynamic, which XLA's dynamic padder leaves at the edges of a program."""

from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits, evaluated
from tests.corpus.hlo_text import parse_hlo
from tests.unit.codegen.compiled import on_cpu
from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_server.ir.importer import import_module

TABLE = np.arange(1, 13, dtype=np.float32).reshape(3, 4)

EDGES = """
HloModule edges
ENTRY main {
  x = f32[3,4] parameter(0)
  n = s32[] parameter(1)
  k = s32[] parameter(2)
  box = f32[3,<=4] custom-call(x, n, k), custom_call_target="SliceToDynamic"
  marked = f32[3,<=4] custom-call(box), custom_call_target="Sharding", sharding={replicated}
  sum = f32[3,<=4] add(marked, marked)
  parts = (f32[3,4], s32[], s32[]) custom-call(sum), custom_call_target="PadToStatic"
  whole = f32[3,4] get-tuple-element(parts), index=0
  rows = s32[] get-tuple-element(parts), index=1
  columns = s32[] get-tuple-element(parts), index=2
  ROOT all = (f32[3,4], s32[], s32[], f32[3,<=4]) tuple(whole, rows, columns, box)
}
"""


@pytest.mark.parametrize("columns", [0, 1, 3, 4])
def test_a_box_is_cut_and_filled_up_on_each_platform(columns: int) -> None:
    proto = parse_hlo(EDGES)
    arguments = [TABLE, np.int32(3), np.int32(columns)]
    wanted = np.where(np.arange(4) < columns, 2 * TABLE, np.float32(0))
    for found in (evaluated(proto, arguments), on_cpu(import_module(proto), arguments)):
        assert_equal_bits(found[0], wanted)
        assert [int(size) for size in found[1:3]] == [3, columns]
        assert_equal_bits(np.ascontiguousarray(found[3]), TABLE[:, :columns].copy())


def test_the_value_of_an_array_without_dimensions() -> None:
    text = """
HloModule scalar
ENTRY main {
  x = f32[] parameter(0)
  one = (f32[]) custom-call(x), custom_call_target="PadToStatic"
  y = f32[] get-tuple-element(one), index=0
  ROOT z = f32[] custom-call(y), custom_call_target="SliceToDynamic"
}
"""
    assert evaluated(parse_hlo(text), [np.array(7, np.float32)]) == [7]


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        (3, 5, r"must be in \[0, 4\], got 5 for dimension 1 of f32\[3,<=4\]"),
        (3, -1, r"must be in \[0, 4\], got -1 for dimension 1"),
        (2, 4, r"must be in \[3, 3\], got 2 for dimension 0"),
    ],
)
def test_sizes_are_those_that_the_shape_has(rows: int, columns: int, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        evaluated(parse_hlo(EDGES), [TABLE, np.int32(rows), np.int32(columns)])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("custom-call(x, n, k)", "custom-call(x, k)", "the size in each dimension"),
        ("custom-call(x, n, k)", "custom-call(n, n, k)", "at the bounds of the result"),
        ("box = f32[3,<=4]", "box = (f32[3,<=4])", "gives one array"),
        ("custom-call(sum)", "custom-call(sum, n)", "takes one array"),
        ("(f32[3,4], s32[], s32[]) cust", "(f32[3,4], s32[]) cust", "declared shape"),
    ],
)
def test_checks(old: str, new: str, words: str) -> None:
    lines = EDGES.splitlines()
    (changed,) = (line for line in lines if old in line)
    shape, name = changed.replace(old, new).split(" custom-call"), changed.split()[0]
    result: Any = shape[0].split("= ")[1]
    kept = lines[: lines.index(changed)]
    text = "\n".join([*kept, f"  ROOT {name} = {result} custom-call{shape[1]}", "}"])
    with pytest.raises(ShapeError, match=words):
        evaluated(parse_hlo(text), [TABLE, np.int32(3), np.int32(4)])

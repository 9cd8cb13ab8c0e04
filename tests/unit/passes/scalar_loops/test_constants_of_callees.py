"""Constants of several elements inside of computations on scalars, and of tuples."""

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.hlo_text import parse_hlo
from tests.unit.codegen.compiled import pairs
from xla_server.ir.importer import import_module

PAIR = "k = f32[2] constant({1, 0})"
FOLDED = """o = f32[1] constant({1})
  z = f32[1] constant({0})
  k = f32[2] concatenate(o, z), dimensions={0}"""
TUPLE = """t = (s32[], f32[2]) constant((3, {1, 0}))
  k = f32[2] get-tuple-element(t), index=1"""
MAP = "f32[8] map(x), dimensions={0}, to_apply=f"
REDUCE = "f32[] reduce(x, i), dimensions={0}, to_apply=g"
WINDOWS = "f32[5] reduce-window(x, i), window={size=4}, to_apply=g"
SCATTER = """f32[8] scatter(x, n, u), update_window_dims={}, inserted_window_dims={0},
  scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=h"""
SORT = "f32[8] sort(x), dimensions={0}, to_apply=less"
LOOP = "f32[] get-tuple-element(w), index=1"

PROGRAM = """HloModule m
f {{ a = f32[] parameter(0)
  {table}
  v = f32[2] broadcast(a), dimensions={{}}
  ROOT d = f32[] dot(v, k), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}} }}
g {{ a.1 = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] call(b), to_apply=f
  ROOT r = f32[] maximum(a.1, c) }}
h {{ a.2 = f32[] parameter(0)
  b.2 = f32[] parameter(1)
  t.2 = (f32[], f32[]) constant((2, 3))
  k.2 = f32[] get-tuple-element(t.2), index=1
  ROOT r.2 = f32[] multiply(a.2, k.2) }}
less {{ a.3 = f32[] parameter(0)
  b.3 = f32[] parameter(1)
  c.3 = f32[] call(a.3, b.3), to_apply=h
  d.3 = f32[] call(b.3, a.3), to_apply=h
  ROOT r.3 = pred[] compare(c.3, d.3), direction=LT }}
body {{ s = (s32[], f32[]) parameter(0)
  j = s32[] get-tuple-element(s), index=0
  a.4 = f32[] get-tuple-element(s), index=1
  t.4 = (s32[], s32[]) constant((2, 1))
  one = s32[] get-tuple-element(t.4), index=1
  next = s32[] add(j, one)
  b.4 = f32[] call(a.4), to_apply=f
  ROOT r.4 = (s32[], f32[]) tuple(next, b.4) }}
condition {{ s.1 = (s32[], f32[]) parameter(0)
  j.1 = s32[] get-tuple-element(s.1), index=0
  end = s32[] constant(3)
  ROOT r.5 = pred[] compare(j.1, end), direction=LT }}
ENTRY e {{ x = f32[8] parameter(0)
  i = f32[] parameter(1)
  n = s32[3,1] constant({{{{1}},{{9}},{{1}}}})
  u = f32[3] constant({{7, 8, 9}})
  begin = s32[] constant(0)
  state = (s32[], f32[]) tuple(begin, i)
  w = (s32[], f32[]) while(state), condition=condition, body=body
  ROOT root = {root} }}"""


@pytest.mark.parametrize(
    ("table", "root"),
    [
        (PAIR, MAP),
        (FOLDED, MAP),
        (TUPLE, MAP),
        (PAIR, REDUCE),
        (FOLDED, WINDOWS),
        (PAIR, LOOP),
        (PAIR, SCATTER),
        (PAIR, SORT),
    ],
)
def test_each_element_of_a_constant_is_read(table: str, root: str) -> None:
    module = import_module(parse_hlo(PROGRAM.format(table=table, root=root)))
    values = np.array([3, -1, 4, 1, -5, 9, 2, 6], np.float32)
    ((compiled, interpreted),) = pairs(module, [values, np.float32(-2)])
    assert_equal_bits(compiled, interpreted)

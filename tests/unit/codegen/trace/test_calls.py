"""Computations that are called element by element, as graphs."""

from tests.unit.codegen.trace.traced import expression
from tests.unit.codegen.trace.traced import traced as traced_entry
from tests.unit.passes.passing import imported
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Tracer
from xla_server.ir.analysis.affine import Affine

FUSION = """HloModule m
f { a = f32[6] parameter(0)
  b = f32[] parameter(1)
  w = f32[6] broadcast(b), dimensions={}
  s = f32[6] add(a, w)
  ROOT t = (f32[6], f32[6]) tuple(s, w) }
ENTRY e { x = f32[6] parameter(0)
  y = f32[] parameter(1)
  ROOT r = (f32[6], f32[6]) fusion(x, y), kind=kLoop, calls=f }"""


def test_a_map_is_its_computation_of_one_element_of_each_operand() -> None:
    root = "f32[4] map(x0, x1), dimensions={0}, to_apply=hypot"
    squares = "mul(x0[i0], x0[i0]), mul(x1[i0], x1[i0])"
    assert expression(traced_entry(["f32[4]", "f32[4]"], root)) == f"sqrt(add({squares}))"


def test_a_fusion_is_the_root_of_its_computation_over_its_operands() -> None:
    entry = imported(FUSION).entry
    tracer = Tracer(RULES, {p: n for n, p in enumerate(entry.parameters)})
    index = (Affine(2),)
    results = [tracer.value(entry.root, index, number) for number in (0, 1)]
    assert [expression(node) for node in results] == ["add(x0[2], x1[0])", "x1[0]"]
    # Both results read one node.
    assert results[1] in results[0].inputs()

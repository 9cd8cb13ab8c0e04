"""Fusions by what they hold: a loop nest, copies of a concatenate, or a product's kernel."""

import re

import pytest

from tests.processors import MACHINES
from xla_server.codegen.lower.lowering import kernels_of, lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.ir.text.parser import parse_module
from xla_server.target.target import Target

MATRICES = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
TEXT = """HloModule m
f {{ a = f32[40,40] parameter(0)
  b = f32[40,40] parameter(1)
  {body} }}
ENTRY e {{ x = f32[40,40] parameter(0)
  y = f32[40,40] parameter(1)
  ROOT r = {result} fusion(x, y), kind={kind}, calls=f }}"""
DOT = f"p = f32[40,40] dot(a, b), {MATRICES}\n  ROOT r = f32[40,40] tanh(p)"


def _source(body: str, kind: str, result: str = "f32[40,40]") -> str:
    """Return the kernels of a fusion."""
    module = parse_module(TEXT.format(body=body, kind=kind, result=result))
    code = lower(module, LOWERINGS, Target.of(MACHINES["avx2"]))
    return "\n".join(thunk.source for thunk in kernels_of(code))


@pytest.mark.parametrize("kind", ["kLoop", "kInput"])
def test_a_loop_fusion_is_one_loop_nest(kind: str) -> None:
    found = _source("s = f32[40,40] add(a, b)\n  ROOT r = f32[40,40] exponential(s)", kind)
    assert found.count("def kernel") == 1
    assert "exp_f32" in found
    assert "add(" in found


def test_an_output_fusion_is_its_product_with_what_follows() -> None:
    found = _source(DOT, "kOutput")
    assert re.search(r"gemm_tile_f32_\d+x", found)
    assert "tanh_f32" in found
    assert found.count("def kernel") == 1


def test_the_same_as_a_loop_fusion_is_a_loop_for_each_element() -> None:
    found = _source(DOT, "kLoop")
    assert "gemm_tile" not in found
    assert "tanh_f32" in found


def test_a_fusion_whose_result_is_a_concatenate_is_cut_at_its_edges() -> None:
    body = "n = f32[40,40] negate(a)\n  ROOT r = f32[80,40] concatenate(n, b), dimensions={0}"
    found = _source(body, "kLoop", "f32[80,40]")
    assert "neg(" in found
    assert "select(" not in found

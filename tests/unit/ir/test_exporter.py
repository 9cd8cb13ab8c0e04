import pytest

from tests.corpus.hlo_text import VECTOR_LOOP, parse_hlo, print_hlo
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module

LAYOUTS = """
HloModule layouts, entry_computation_layout={(f32[2,3]{0,1})->f32[3,2]{0,1}}

fused { p = f32[2,3]{0,1} parameter(0)
  ROOT t = f32[3,2]{0,1} transpose(p), dimensions={1,0} }

ENTRY main { x = f32[2,3]{0,1} parameter(0)
  n = f32[2,3]{0,1} negate(x), metadata={op_name="neg"}, frontend_attributes={a="b"}
  ROOT f = f32[3,2]{0,1} fusion(n), kind=kLoop, calls=fused, control-predecessors={n} }
"""


@pytest.mark.parametrize("text", [VECTOR_LOOP, LAYOUTS])
def test_what_jaxlib_wrote_it_reads_again_the_same(text: str) -> None:
    proto = parse_hlo(text)
    written = export_module(import_module(proto))
    assert print_hlo(written) == print_hlo(proto)
    assert written.host_program_shape == proto.host_program_shape
    for ours, theirs in zip(written.computations, proto.computations, strict=True):
        assert ours.id == theirs.id
        assert list(ours.instructions) == list(theirs.instructions)


@pytest.mark.parametrize("text", [VECTOR_LOOP, LAYOUTS])
def test_reading_back_gives_the_same_module(text: str) -> None:
    written = export_module(import_module(parse_hlo(text)))
    assert export_module(import_module(written)) == written


def test_fused_computations_are_marked() -> None:
    written = export_module(import_module(parse_hlo(LAYOUTS)))
    assert [part.is_fusion_computation for part in written.computations] == [True, False]

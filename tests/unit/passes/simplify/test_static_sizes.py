from tests.unit.passes.passing import opcodes, passed, rewritten, stated
from xla_contract.types.opcode import Opcode
from xla_server.ir.text.parser import parse_module
from xla_server.passes.simplify.static_sizes import StaticSizes


def test_a_size_that_is_known_is_a_constant() -> None:
    before = stated(["f32[3,5]"], "s32[] get-dimension-size(x0), dimensions={1}")
    after = rewritten(before, StaticSizes())
    assert opcodes(after) == {"constant": 1}
    assert after.entry.root.attributes.literal.value == 5


def test_a_size_that_a_run_decides_is_asked_for() -> None:
    module = parse_module("""HloModule m
ENTRY e {
  x = f32[<=3,5] parameter(0)
  rows = s32[] get-dimension-size(x), dimensions={0}
  columns = s32[] get-dimension-size(x), dimensions={1}
  ROOT both = s32[] add(rows, columns)
}""")
    after = passed(module, StaticSizes())
    assert opcodes(after) == {"constant": 1, "get-dimension-size": 1, "add": 1}
    (requested,) = [i for i in after.entry.instructions if i.opcode is Opcode.GET_DIMENSION_SIZE]
    assert requested.attributes.dimension == 0
    passed(after, StaticSizes(), fires=False)

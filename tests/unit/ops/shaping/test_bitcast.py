import numpy as np

from tests.corpus.hlo_text import parse_hlo
from tests.corpus.single_op import inferred
from xla_contract.ops.shaping.bitcast import BitcastAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.importer import import_module


def test_memory_is_read_under_the_layouts() -> None:
    module = import_module(
        parse_hlo("""HloModule m
ENTRY e { a = f32[2,3]{0,1} parameter(0)
  ROOT r = s32[3,2,1]{2,1,0} bitcast(a) }""")
    )
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = evaluate(module, [numbers], check_values=True)
    np.testing.assert_array_equal(result, numbers.view(np.int32).T.reshape(3, 2, 1))


def test_the_shape_is_the_one_stated() -> None:
    wider = BitcastAttributes(Shape.parse("s16[2,2]"))
    assert inferred(Opcode.BITCAST, ["f32[2]{0}"], wider) == "s16[2,2]"

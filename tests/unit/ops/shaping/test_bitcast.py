import numpy as np
import pytest

from tests.corpus.hlo_text import parse_hlo
from tests.corpus.single_op import inferred
from xla_contract.errors import ShapeError
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


def test_sizes_in_bytes_must_agree() -> None:
    with pytest.raises(ShapeError, match=r"got f32\[2\] and f32\[3\]"):
        inferred(Opcode.BITCAST, ["f32[2]"], BitcastAttributes(Shape.parse("f32[3]")))
    wider = BitcastAttributes(Shape.parse("s16[2,2]"))
    assert inferred(Opcode.BITCAST, ["f32[2]{0}"], wider) == "s16[2,2]"

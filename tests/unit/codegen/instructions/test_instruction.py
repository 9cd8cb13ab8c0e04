import pytest
from numba import types

from xla_server.codegen.instructions.instruction import instruction_of


def test_operands_of_any_type_get_the_one_signature():
    signature = types.float64(types.float64, types.int64)
    made = instruction_of(signature)(lambda builder, number, times: number)
    for operands in ((types.float64, types.int64), (types.float32, types.int8)):
        assert made.signature(None, operands) is signature


def test_the_number_of_operands_is_that_of_the_signature():
    made = instruction_of(types.float64(types.float64))(lambda *_: None)
    for operands in ((), (types.float64, types.float64)):
        with pytest.raises(TypeError, match=f"must have 1 operands, got {len(operands)}"):
            made.signature(None, operands)

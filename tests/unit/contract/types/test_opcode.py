import pickle

import pytest

from xla_contract.types.opcode import VARIADIC, Opcode


def test_every_opcode_has_an_arity() -> None:
    assert all(opcode.arity == VARIADIC or opcode.arity >= 0 for opcode in Opcode)


def test_opcodes_are_their_strings_on_the_wire() -> None:
    assert Opcode("dynamic-update-slice") is Opcode.DYNAMIC_UPDATE_SLICE
    assert str(Opcode.ADD) == "add"
    assert all(opcode.value == opcode.name.lower().replace("_", "-") for opcode in Opcode)
    with pytest.raises(ValueError, match="nonsense"):
        Opcode("nonsense")
    assert pickle.loads(pickle.dumps(Opcode.ADD)) is Opcode.ADD


def test_arity() -> None:
    assert Opcode.CONSTANT.arity == 0
    assert Opcode.SELECT.arity == 3
    assert Opcode.TUPLE.arity == VARIADIC

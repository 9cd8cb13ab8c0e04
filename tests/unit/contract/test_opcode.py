import pytest

from xla_contract.opcode import ARITY, VARIADIC, Opcode


def test_the_table_of_arities_is_total() -> None:
    assert set(ARITY) == set(Opcode)
    assert all(arity == VARIADIC or arity >= 0 for arity in ARITY.values())


def test_opcodes_are_their_strings_on_the_wire() -> None:
    assert Opcode("dynamic-update-slice") is Opcode.DYNAMIC_UPDATE_SLICE
    assert str(Opcode.ADD) == "add"
    assert all(opcode.value == opcode.name.lower().replace("_", "-") for opcode in Opcode)
    with pytest.raises(ValueError, match="nonsense"):
        Opcode("nonsense")


def test_arity() -> None:
    assert Opcode.CONSTANT.arity == 0
    assert Opcode.SELECT.arity == 3
    assert Opcode.TUPLE.arity == VARIADIC

"""while, conditional, call, fusion and map: their rules."""

import pytest

from xla_contract.errors import ShapeError
from xla_contract.ops.control.fusion import FusionAttributes, FusionKind
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.ops.definitions import infer_shape
from xla_contract.ops.elementwise.map import MapAttributes
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


def signature(*shapes: str) -> ProgramShape:
    *parameters, result = map(Shape.parse, shapes)
    return ProgramShape(tuple(parameters), result)


def shapes(*texts: str) -> list[Shape]:
    return [Shape.parse(text) for text in texts]


STATE = "(s32[], f32[2])"
BODY = signature(STATE, STATE)
CONDITION = signature(STATE, "pred[]")


def test_while_gives_what_it_carries() -> None:
    carried = Shape.parse("(s32[], f32[2]{0})")
    found = infer_shape(Opcode.WHILE, [carried], NO_ATTRIBUTES, [BODY, CONDITION])
    assert str(found) == STATE


BRANCH = signature("f32[]", "f32[2]")


def test_a_branch_chosen_by_number_takes_its_operand() -> None:
    with pytest.raises(ShapeError, match=r"branch 0 must take parameters \(f32\[3\]\)"):
        infer_shape(Opcode.CONDITIONAL, shapes("s32[]", "f32[3]"), NO_ATTRIBUTES, [BRANCH])


def test_conditional_gives_what_its_branches_give() -> None:
    operands = shapes("pred[]", "f32[]", "f32[]")
    found = infer_shape(Opcode.CONDITIONAL, operands, NO_ATTRIBUTES, [BRANCH, BRANCH])
    assert str(found) == "f32[2]"


def test_call_takes_its_operands() -> None:
    assert str(infer_shape(Opcode.CALL, shapes("f32[]"), NO_ATTRIBUTES, [BRANCH])) == "f32[2]"
    with pytest.raises(ShapeError, match=r"must take parameters \(f32\[3\]\), got \(p0: f32\[\]"):
        infer_shape(Opcode.CALL, shapes("f32[3]"), NO_ATTRIBUTES, [BRANCH])


def test_fusion_is_a_call_with_a_kind() -> None:
    attributes = FusionAttributes(FusionKind.LOOP)
    assert str(infer_shape(Opcode.FUSION, shapes("f32[]"), attributes, [BRANCH])) == "f32[2]"


def test_map_has_the_operands_dimensions_and_the_computation_s_type() -> None:
    is_less = signature("f32[]", "s32[]", "pred[]")
    operands = shapes("f32[2,3]", "s32[2,3]")
    assert str(infer_shape(Opcode.MAP, operands, MapAttributes((0, 1)), [is_less])) == "pred[2,3]"

import pytest

from tests.corpus.hlo_text import print_hlo
from xla_client import Builder, Computation, InvalidArgumentError, Shape, ShapeError, ops

VECTOR = Shape.parse("f32[3]")


def _double() -> Computation:
    builder = Builder("double")
    x = builder.parameter(0, VECTOR)
    return builder.build(x + x)


def test_xla_reads_the_call_as_a_composite():
    builder = Builder("main")
    x = builder.parameter(0, VECTOR)
    builder.build(ops.composite_call(_double(), [x], "my.double", "{n = 1 : i32}", 2))
    text = print_hlo(builder.build().proto)
    assert "is_composite=true" in text
    for said in ("composite.attributes={n = 1 : i32}", 'name="my.double"', 'version="2"'):
        assert said in text


def test_it_needs_a_name_attributes_and_a_version():
    builder = Builder("main")
    x = builder.parameter(0, VECTOR)
    for said in (("",), ("my.double", ""), ("my.double", "{}", -1)):
        with pytest.raises(InvalidArgumentError, match=r"must have a name, attributes.*got"):
            ops.composite_call(_double(), [x], *said)


def test_a_custom_call_may_have_a_computation_and_layouts():
    builder = Builder("main")
    x = builder.parameter(0, Shape.parse("f32[2,3]"))
    columns = Shape.parse("f32[2,3]{0,1}")
    call = ops.custom_call(
        [x], "mine", columns, computation=_double(), operand_shapes_with_layout=[columns]
    )
    text = print_hlo(builder.build(call).proto)
    assert "f32[2,3]{0,1} custom-call(" in text
    assert "operand_layout_constraints={f32[2,3]{0,1}}" in text
    assert "double" in text


def test_layouts_of_a_custom_call_are_those_of_its_operands():
    builder = Builder("main")
    x = builder.parameter(0, VECTOR)
    for shapes in ([], [VECTOR], [Shape.parse("f32[4]{0}")]):
        with pytest.raises(ShapeError, match=r"^custom-call: .*for \(f32\[3\]\)"):
            ops.custom_call([x], "mine", VECTOR, operand_shapes_with_layout=shapes)

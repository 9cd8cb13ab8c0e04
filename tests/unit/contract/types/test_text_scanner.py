import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.shape import (
    MAX_LENGTH,
    MAX_NESTING,
    UNBOUNDED,
    Shape,
    parse_program_shape,
    parse_shape,
)
from xla_contract.wire.shape_proto import shape_to_proto

TEXTS = [
    "f32[]",
    "f32[2,3]",
    "f32[0,2]{0,1}",
    "s32[]{:S(5)}",
    "s4[3]{0:E(4)}",
    "bf16[2,3]{1,0:T(8,128)(2,1)L(2)E(4)S(1)}",
    "f32[2,3]{1,0:T(2,*,128)}",
    "f32[<=5,?]",
    "()",
    "(f32[2]{0}, s32[], token[], (pred[1], ()))",
    "opaque[]",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_reads_back_as_it_was(text: str) -> None:
    assert str(parse_shape(text)) == text


@pytest.mark.parametrize("text", TEXTS)
def test_jaxlib_reads_the_same_shape(text: str) -> None:
    xla_client = pytest.importorskip("jax._src.lib").xla_client
    theirs = xla_client.Shape(text).to_serialized_proto()
    ours = shape_to_proto(parse_shape(text).with_default_layout())
    assert type(ours).FromString(theirs) == ours


def test_space_comments_and_any_order_of_layout_parts_are_read() -> None:
    assert parse_shape(" ( f32[ 2 , 3 ] { 1,0 } , /*index=1*/ s32[] ) ") == parse_shape(
        "(f32[2,3]{1,0}, s32[])"
    )
    assert parse_shape("f32[2]{0:S(1)E(4)L(2)T(8)}") == parse_shape("f32[2]{0:T(8)L(2)E(4)S(1)}")
    assert parse_shape("f32[8]{0:T(8)SC(0:3)(0:4,5)S(1)M(1024)}") == parse_shape(
        "f32[8]{0:T(8)S(1)}"
    )
    assert parse_shape("f32[?]").dimensions == (UNBOUNDED,)
    assert Shape.parse("f32[2]") == parse_shape("f32[2]")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "element type or .* got the end at position 0"),
        ("f32", r"'\[' is needed in a shape, got the end at position 3"),
        ("f33[2]", r"got 'f33\[2\]' at position 0"),
        ("f32[2,x]", r"dimension size is needed in a shape, got 'x\]' at position 6"),
        ("f32[-1]", "position 4"),
        ("f32[9223372036854775808]", "position 4"),
        ("f32[2]{0}}", "the end is needed .* position 9"),
        ("f32[2]{1}", "permutation .* position 7"),
        ("f32[2]{1,0}", "order every dimension.* position 0"),
        ("f32[2]{0:X(1)}", "position 9"),
        ("f32[2]{0:E(4)E(4)}", "position 13"),
        ("f32[2]{0:SC(0:1)SC(0:1)}", "position 17"),
        ("(f32[2], )", "element type .* position 9"),
        ("(f32[2]", "position 7"),
        ("token[2]", r"token\[\] without dimensions is needed .* position 0"),
        ("tuple[]", "position 0"),
        ("f32[2]/*", "position 6"),
        ("f32[9223372036854775807,2]", r"2\^63.* position 0"),
        ("(" * (MAX_NESTING + 2), f"position {MAX_NESTING + 1}"),
        ("(" * MAX_LENGTH + ")", f"got {MAX_LENGTH + 1}"),
    ],
)
def test_errors_say_the_position(text: str, sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        parse_shape(text)


def test_program_shapes() -> None:
    text = "(x: f32[2], state.1: (s32[], f32[])) -> (f32[2])"
    program = parse_program_shape(text)
    assert program.parameter_names == ("x", "state.1")
    assert str(program) == text
    assert parse_program_shape("(f32[2], s32[]) -> f32[]").parameter_names == ()
    assert parse_program_shape("() -> token[]").parameters == ()


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("(x: f32[], s32[]) -> f32[]", 11),
        ("(s32[], x: f32[]) -> f32[]", 8),
        ("(s32[]) f32[]", 8),
        ("(s32[]) -> ", 11),
        ("f32[]", 0),
    ],
)
def test_program_shape_errors_say_the_position(text: str, position: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"position {position}$"):
        parse_program_shape(text)

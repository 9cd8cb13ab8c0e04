import math

import pytest

from xla_contract.errors import InvalidArgumentError
from xla_server.custom_calls.attributes import MAX_BYTES, MAX_NESTING, parse_attributes


@pytest.mark.parametrize("text", [b"", b"  ", b"{}", b" { } "])
def test_nothing_is_an_empty_dictionary(text: bytes) -> None:
    assert parse_attributes(text) == {}


def test_every_kind_of_value() -> None:
    text = rb"""{uplo = 76 : ui8, low = -1 : i32, plain = 5, eps = 1.5e-06 : f32, half = 0.5,
      hex = 0x3F800000 : f32, small = 0x3F80 : bf16, "odd name" = "a\22\C3\A9\n", left = true,
      right = false, unit, said = unit, dims = array<i64: 1, -2>, none = array<i32>,
      flags = array<i1: true, false>, mixed = [1 : i8, [2.0], {a = "b"}]}"""
    assert parse_attributes(text) == {
        "uplo": 76, "low": -1, "plain": 5, "eps": 1.5e-06, "half": 0.5, "hex": 1.0, "small": 1.0,
        "odd name": 'a"é\n', "left": True, "right": False, "unit": True, "said": True,
        "dims": (1, -2), "none": (), "flags": (True, False),
        "mixed": (1, (2.0,), {"a": "b"}),
    }  # fmt: skip
    bits = parse_attributes(b"{x = 0x7FC00000 : f32}")["x"]
    assert isinstance(bits, float)
    assert math.isnan(bits)


@pytest.mark.parametrize(
    "text",
    [
        b"uplo",
        b"{",
        b"{a}}",
        b"{a = }",
        b"{a = 1 b = 2}",
        b"{a = 1, a = 2}",
        b"{a = 256 : ui8}",
        b"{a = -1 : ui8}",
        b"{a = 128 : si8}",
        b"{a = 1 : f32}",
        b"{a = 1.0 : i32}",
        b"{a = 1 : tensor}",
        b"{a = 0x1FFFFFFFF : f32}",
        b"{a = dense<1> : tensor<1xi32>}",
        b"{a = #foo.bar}",
        b"{a = [1, 2}",
        b"{a = array<i64: }",
        b'{a = "open}',
        rb'{a = "\q"}',
        b"{1 = 2}",
        b"{a = \xff}",
    ],
)
def test_what_is_wrong_is_refused_with_its_position(text: bytes) -> None:
    with pytest.raises(InvalidArgumentError, match=r"position \d+|another byte at \d+"):
        parse_attributes(text)


def test_length_and_depth_are_bounded() -> None:
    with pytest.raises(InvalidArgumentError, match=str(MAX_BYTES)):
        parse_attributes(b"{a = " + b"1" * MAX_BYTES + b"}")
    deep = b"{a = " + b"[" * (MAX_NESTING - 1) + b"]" * (MAX_NESTING - 1) + b"}"
    assert "a" in parse_attributes(deep)
    with pytest.raises(InvalidArgumentError, match=f"{MAX_NESTING} levels"):
        parse_attributes(b"{a = " + b"[" * 30_000)

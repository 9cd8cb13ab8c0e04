"""Literals through HLO text keep every bit."""

from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.corpus.hlo_text import parse_hlo
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Literal, storage
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.proto import literal_from_proto
from xla_server.ir.text.literals import print_literal, read_literal
from xla_server.ir.text.scanner import HloReader

TYPES = [element_type for element_type in ElementType if element_type.is_array]


def again(literal: Literal) -> Literal:
    reader = HloReader(print_literal(literal))
    read = read_literal(reader, literal.shape)
    reader.end()
    return read


@st.composite
def arrays(draw: Any, element_type: ElementType) -> Literal:
    dimensions = draw(st.lists(st.integers(0, 3), max_size=4))
    shape = Shape.array(element_type, dimensions).with_default_layout()
    size = shape.byte_size
    data = draw(st.binary(min_size=size, max_size=size))
    flat = np.frombuffer(data, np.uint8)
    if element_type is ElementType.PRED:
        flat = flat & np.uint8(1)
    elif element_type.bit_width < 8:
        # Bits that mean nothing are as the type itself leaves them.
        width = np.uint8((1 << element_type.bit_width) - 1)
        flat = (flat & width).view(element_type.dtype)
        if element_type.is_signed_integer:
            flat = flat.astype(np.int8).astype(element_type.dtype)
        flat = flat.view(np.uint8)
    return Literal.from_linear_memory(shape, flat.copy().view(element_type.dtype))


@hypothesis.settings(max_examples=400, deadline=None)
@hypothesis.given(st.sampled_from(TYPES).flatmap(arrays))
def test_every_bit_comes_back(literal: Literal) -> None:
    assert again(literal).equal(literal)


def all_values(element_type: ElementType) -> Literal:
    bits = np.arange(1 << element_type.bit_width)
    kind = np.uint8 if element_type.bit_width <= 8 else np.uint16
    return Literal.from_numpy(bits.astype(kind).view(element_type.dtype))


# jaxlib's parser ends the process at numbers of six bits.
UNKNOWN_TO_JAXLIB = (ElementType.F6E2M3FN, ElementType.F6E3M2FN)
SMALL = [t for t in TYPES if t.is_floating and t.bit_width <= 16]


@pytest.mark.parametrize("element_type", SMALL, ids=lambda element_type: element_type.text)
def test_every_value_of_a_small_float(element_type: ElementType) -> None:
    literal = all_values(element_type)
    assert again(literal).equal(literal)
    if element_type in UNKNOWN_TO_JAXLIB:
        return
    text = f"{literal.shape} constant({print_literal(literal)})"
    proto = parse_hlo(f"HloModule m\nENTRY e {{ ROOT c = {text} }}")
    theirs = literal_from_proto(proto.computations[0].instructions[0].literal)
    ours = storage(literal.value, element_type)
    with np.errstate(invalid="ignore"):
        numbers = ~np.isnan(literal.value.astype(np.float64))
    assert np.array_equal(storage(theirs.value, element_type)[numbers], ours[numbers])


def test_tuples_nest() -> None:
    literal = Literal.from_numpy((np.arange(6.0).reshape(2, 3), (np.int32(3), np.True_), ()))
    assert again(literal) == literal


@pytest.mark.parametrize(
    ("shape", "text", "expected"),
    [
        ("f32[2,2]", "{ {1, 2}, { -.5, 1e3 } }", [[1, 2], [-0.5, 1000]]),
        ("f32[2,1,2]", "{{ /*i0=0*/ {1, 2} }, // one\n {{3,4}}}", [[[1, 2]], [[3, 4]]]),
        ("pred[5]", "{true, 0, 1, 7, -1}", [True, False, True, True, True]),
        ("c64[2]", "{(1, -2), 3}", [1 - 2j, 3]),
        ("s64[2]", "{-9223372036854775808, 18446744073709551615}", [-(2**63), -1]),
        ("u64[3]", "{18446744073709551615, -1, -9223372036854775808}", [2**64 - 1] * 2 + [2**63]),
        ("f32[0,3]", "{}", np.zeros((0, 3))),
        ("f32[2,0]", "{ {}, {} }", np.zeros((2, 0))),
    ],
)
def test_the_ways_of_writing(shape: str, text: str, expected: Any) -> None:
    read = read_literal(HloReader(text), Shape.parse(shape))
    assert np.array_equal(read.value, np.array(expected, read.value.dtype))


@pytest.mark.parametrize(
    "text",
    ["pred[3] {true, 7, -1}", "u64[2] {-1, -9223372036854775808}", "s64[1] {18446744073709551615}"],
)
def test_numbers_are_read_into_64_bits_as_in_xla(text: str) -> None:
    shape, _, elements = text.partition(" ")
    proto = parse_hlo(f"ENTRY e {{ ROOT c = {shape} constant({elements}) }}")
    theirs = literal_from_proto(proto.computations[0].instructions[0].literal)
    ours = read_literal(HloReader(elements), Shape.parse(shape))
    assert np.array_equal(ours.value, theirs.value)


@pytest.mark.parametrize(
    "text",
    [
        *("pred[] 0.5", "u64[] -9223372036854775809", "s64[] 18446744073709551616", "u32[] -1"),
        *("f64[] 1e400", "f32[] -1e400", "f16[] 65520", "c64[] (inf, 1e400)"),
    ],
)
def test_what_does_not_fit_is_refused(text: str) -> None:
    shape, _, element = text.partition(" ")
    with pytest.raises(InvalidArgumentError, match="the elements must be values of"):
        read_literal(HloReader(element), Shape.parse(shape))


def test_signed_zero_and_nans_are_distinguished() -> None:
    bits = np.array([0x80000000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFF800000], np.uint32)
    text = print_literal(Literal.from_numpy(bits.view(np.float32)))
    assert text == "{-0.0, nan, -nan, nan(0x1), -inf}"
    assert np.array_equal(
        read_literal(HloReader(text), Shape.parse("f32[5]")).value.view(np.uint32), bits
    )


def test_a_large_constant_takes_linear_time() -> None:
    literal = Literal.from_numpy(np.random.default_rng(0).standard_normal((300, 1000)))
    assert again(literal).equal(literal)

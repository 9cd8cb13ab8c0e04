"""Bits of elements as graphs. Results of every pair of types are those of tests/unit/ops."""

from collections.abc import Sequence

import pytest

from tests.unit.codegen.trace.traced import expression, traced

_WHOLE = "bits_u64(select(eq(i1, 0), real_c128(x0[i0]), imag_c128(x0[i0])))"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # As many bits.
        ("f32[4]", "s32[4]", "to_i32(bits_u32(x0[i0]))"),
        ("u64[4]", "f64[4]", "bits_f64(to_u64(x0[i0]))"),
        ("c64[4]", "c64[4]", "x0[i0]"),
        # Stored narrow and computed wide: their bits are those in memory.
        ("bf16[4]", "u16[4]", "to_u16(x0[i0])"),
        ("u16[4]", "bf16[4]", "bf16_to_f32(to_u16(x0[i0]))"),
        # Four bits in a byte.
        ("s4[4]", "u4[4]", "round_u4(to_u8(bit_and(to_u8(x0[i0]), 15)))"),
        # A part, low ones first.
        (
            "f32[4]",
            "u16[4,2]",
            "to_u16(to_u16(shift_right_logical(bits_u32(x0[i0]), mul(to_u32(i1), 16))))",
        ),
        # Several parts.
        (
            "u16[4,2]",
            "f32[4]",
            "bits_f32(bit_or(shift_left(to_u32(to_u16(x0[2*i0])), 0), "
            "shift_left(to_u32(to_u16(x0[2*i0+1])), 16)))",
        ),
        # A number of C64 has the bits of a part of C128.
        (
            "c128[4]",
            "c64[4,2]",
            f"complex_f32(bits_f32(to_u32({_WHOLE})), "
            f"bits_f32(to_u32(shift_right_logical({_WHOLE}, 32))))",
        ),
    ],
)
def test_bits_are_read_as_another_type(old: str, new: str, expected: str) -> None:
    assert expression(traced([old], f"{new} bitcast-convert(x0)")) == expected


def test_a_computed_element_is_narrowed_to_its_bits() -> None:
    found = traced(["bf16[4]"], "u16[4] bitcast-convert(y)", "y = bf16[4] negate(x0)")
    assert "f32_to_bf16(" in expression(found)


@pytest.mark.parametrize(
    ("parameters", "root", "expected"),
    [
        (
            ["f32[4]", "u32[4]"],
            "s32[4] stochastic-convert(x0, x1)",
            "stochastic_s32(to_f64(x0[i0]), to_u64(x1[i0]), 4294967296.0)",
        ),
        (
            ["bf16[4]", "u16[4]"],
            "s8[4] stochastic-convert(x0, x1)",
            "stochastic_s8(to_f64(x0[i0]), to_u64(x1[i0]), 65536.0)",
        ),
    ],
)
def test_a_random_number_is_scaled_by_its_range(
    parameters: Sequence[str], root: str, expected: str
) -> None:
    assert expression(traced(parameters, root)) == expected

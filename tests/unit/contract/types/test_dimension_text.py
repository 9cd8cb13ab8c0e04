"""Dimension numbers of convolutions in HLO's text and in that of JAX."""

import itertools

import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.dimension_numbers import ConvolutionDimensionNumbers
from xla_contract.types.dimension_text import parse_convolution_numbers


@pytest.mark.parametrize(
    "text", ["b01f_01io->b01f", "bf01_oi01->bf01", "01bf_i10o->f0b1", "bf_io->bf", "0bf_0io->bf0"]
)
def test_hlo_text_is_read_as_it_is_written(text: str) -> None:
    assert str(parse_convolution_numbers(text)) == text


def test_every_order_of_dimensions_is_itself() -> None:
    for order in itertools.permutations("bf01"):
        term = "".join(order)
        assert str(parse_convolution_numbers(f"{term}_01io->{term}")) == f"{term}_01io->{term}"


@pytest.mark.parametrize(
    ("text", "hlo"),
    [
        ("NHWC,HWIO->NHWC", "b01f_01io->b01f"),
        ("NCHW, OIHW -> NCHW", "bf01_oi01->bf01"),
        ("nhwc,hwio->nchw", "b01f_01io->bf01"),
        ("NDHWC,DHWIO->NDHWC", "b012f_012io->b012f"),
        ("NWC,WIO->NWC", "b0f_0io->b0f"),
        # Spatial dimensions are numbered as the kernel has them.
        ("NWHC,HWIO->NHWC", "b10f_01io->b01f"),
    ],
)
def test_letters(text: str, hlo: str) -> None:
    assert str(parse_convolution_numbers(text)) == hlo


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NHWC", "there is no '->' in it"),
        ("NHWC->NHWC", "it has 1 operands"),
        ("NHWC,HWIO,X->NHWC", "it has 3 operands"),
        ("NHWC,HWIO->NHW", "'NHW' must have N, C, H and W, each once"),
        ("NHWW,HWIO->NHWC", "'NHWW' must have"),
        ("NHWC,HHIO->NHWC", "each once"),
        ("b01f_01io->b02f", "'b02f' must have b, f, 0 and 1, each once"),
        ("b01f_01oo->b01f", "'01oo' must have i, o, 0 and 1"),
        ("", "there is no '->' in it"),
    ],
)
def test_what_is_none(text: str, reason: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        parse_convolution_numbers(text)
    assert "'b01f_01io->b01f' or 'NHWC,HWIO->NHWC'" in str(caught.value)
    assert reason in str(caught.value)


def test_it_gives_the_record() -> None:
    assert parse_convolution_numbers("NHWC,HWIO->NHWC") == ConvolutionDimensionNumbers(
        0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2)
    )

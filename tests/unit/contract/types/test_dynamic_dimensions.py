"""Dynamic dimensions of results, by the shape rule of each operation."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.conformance.examples import ADD, GE, scalar_function
from xla_client import Builder, Op, Shape, ops
from xla_client.lib import constants
from xla_contract.errors import ShapeError
from xla_contract.ops.linear_algebra.fft import FftType
from xla_contract.ops.shaping.reshape import groups
from xla_contract.types.dimension_numbers import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
)
from xla_contract.types.element_type import ElementType as E

BATCHED = DotDimensionNumbers((2,), (1,), (0,), (0,))
ROWS = GatherDimensionNumbers((1,), (0,), (0,), 1)
PLACES = ScatterDimensionNumbers((1,), (0,), (0,), 1)
NCW = ConvolutionDimensionNumbers(0, 1, (2,), 1, 0, (2,), 0, 1, (2,))


class Parameters(Builder):
    """A builder that makes a parameter of a shape in HLO text."""

    def __init__(self) -> None:
        super().__init__("rules")
        self.count = 0

    def __call__(self, text: str) -> Op:
        self.count += 1
        return self.parameter(self.count - 1, Shape.parse(text))


def zero(p: Parameters) -> Op:
    return constants.zero(p, E.F32)


def calling(parameter: str, name: str = "called") -> Any:
    builder = Builder(name)
    return builder.build(builder.parameter(0, Shape.parse(parameter)))


CASES: list[tuple[str, Callable[[Parameters], Op]]] = [
    ("f32[<=3,4]", lambda p: ops.neg(p("f32[<=3,4]"))),
    ("f32[<=3,<=4]", lambda p: p("f32[<=3,4]") + p("f32[3,<=4]")),
    ("pred[<=3]", lambda p: ops.lt(p("f32[3]"), p("f32[<=3]"))),
    ("f32[<=3]", lambda p: ops.select(p("pred[<=3]"), p("f32[3]"), p("f32[3]"))),
    ("f32[<=3]", lambda p: ops.select(p("pred[]"), p("f32[3]"), p("f32[<=3]"))),
    ("f32[<=3]", lambda p: ops.clamp(p("f32[<=3]"), p("f32[3]"), p("f32[]"))),
    ("s8[<=3]", lambda p: ops.convert_element_type(p("f32[<=3]"), E.S8)),
    ("f32[2,<=3,4]", lambda p: ops.broadcast_in_dim(p("f32[<=3]"), [2, 3, 4], [1])),
    ("f32[<=3,4]", lambda p: ops.broadcast_in_dim(p("f32[<=3,1]"), [3, 4], [0, 1])),
    ("f32[4,<=3]", lambda p: ops.transpose(p("f32[<=3,4]"), [1, 0])),
    ("f32[<=3]", lambda p: ops.rev(p("f32[<=3]"), [0])),
    ("f32[<=12]", lambda p: ops.reshape(p("f32[3,<=4]"), [12])),
    ("f32[<=3,1,4]", lambda p: ops.reshape(p("f32[<=3,4]"), [3, 1, 4])),
    ("f32[1,<=3]", lambda p: ops.reshape(p("f32[<=3]"), [1, 3])),
    ("f32[<=1,1]", lambda p: ops.reshape(p("f32[<=1]"), [1, 1])),
    ("f32[<=3,2]", lambda p: ops.reshape(p("f32[<=6]"), [3, 2], inferred_dimension=0)),
    ("f32[0,3]", lambda p: ops.reshape(p("f32[<=3,0]"), [0, 3])),
    ("f32[<=8,3]", lambda p: ops.concat_in_dim([p("f32[<=4,3]"), p("f32[4,3]")], 0)),
    ("f32[<=4,6]", lambda p: ops.concat_in_dim([p("f32[4,3]"), p("f32[<=4,3]")], 1)),
    ("f32[<=4,2]", lambda p: ops.slice(p("f32[<=4,<=3]"), [0, 0], [4, 2])),
    ("f32[<=4,2]", lambda p: ops.dynamic_slice(p("f32[<=4,<=3]"), [p("s32[]")] * 2, [4, 2])),
    (
        "f32[<=4,3]",
        lambda p: ops.dynamic_update_slice(p("f32[4,3]"), p("f32[<=4,<=2]"), [p("s32[]")] * 2),
    ),
    ("f32[<=6]", lambda p: ops.pad_in_dim(p("f32[<=4]"), zero(p), 0, 1, 1)),
    ("f32[<=3]", lambda p: ops.reduce(p("f32[<=3,<=4]"), zero(p), ADD, [1])),
    ("f32[<=3]", lambda p: ops.reduce_window(p("f32[<=4]"), zero(p), ADD, [2], [1], "valid")),
    (
        "f32[<=4]",
        lambda p: ops.select_and_scatter(
            p("f32[<=4]"), GE, [2], [2], "valid", p("f32[2]"), zero(p), ADD
        ),
    ),
    ("f32[<=2,3,<=5]", lambda p: ops.dot_general(p("f32[<=2,3,4]"), p("f32[2,4,<=5]"), BATCHED)),
    ("f32[<=2,<=3,5]", lambda p: ops.dot_general(p("f32[2,<=3,4]"), p("f32[<=2,4,5]"), BATCHED)),
    (
        "f32[<=2,<=3,<=4]",
        lambda p: ops.conv_with_general_dimensions(
            p("f32[<=2,<=1,<=4]"), p("f32[<=3,1,1]"), [1], "valid", NCW
        ),
    ),
    ("f32[<=5,<=3]", lambda p: ops.gather(p("f32[4,<=3]"), p("s32[<=5]"), ROWS, [1, 3])),
    ("f32[5,2]", lambda p: ops.gather(p("f32[4,<=3]"), p("s32[5]"), ROWS, [1, 2])),
    (
        "f32[<=4,3]",
        lambda p: ops.scatter(p("f32[<=4,3]"), p("s32[<=5]"), p("f32[5,3]"), ADD, PLACES),
    ),
    ("f32[<=4]", lambda p: ops.sort([p("f32[<=4]")], scalar_function(ops.lt), 0)),
    ("(f32[<=3,2], s32[<=3,2])", lambda p: ops.top_k(p("f32[<=3,<=4]"), 2)),
    ("c64[<=3,4]", lambda p: ops.fft(p("c64[<=3,4]"), FftType.FFT, [4])),
    ("f32[<=3]", lambda p: ops.map([p("f32[3]"), p("f32[<=3]")], ADD)),
    ("u8[<=3,4]", lambda p: ops.bitcast_convert_type(p("f32[<=3]"), E.U8)),
    ("(f32[<=3], f32[4])", lambda p: ops.tuple([p("f32[<=3]"), p("f32[4]")])),
    ("f32[<=3]", lambda p: ops.call(calling("f32[<=3]"), [p("f32[<=3]")])),
    (
        "f32[<=3]",
        lambda p: ops.conditional(
            p("pred[]"),
            [calling("f32[3]", "one"), calling("f32[<=3]", "two")],
            [p("f32[3]"), p("f32[<=3]")],
        ),
    ),
    ("f32[<=3]", lambda p: ops.while_(_never(), calling("f32[<=3]", "body"), p("f32[3]"))),
]


def _never() -> Any:
    builder = Builder("never")
    builder.parameter(0, Shape.parse("f32[<=3]"))
    return builder.build(builder.constant(False))


@pytest.mark.parametrize("number", range(len(CASES)))
def test_dynamic_dimensions_of_the_result(number: int) -> None:
    wanted, program = CASES[number]
    assert str(program(Parameters()).shape) == wanted


def test_a_split_dynamic_dimension_must_say_which_part_is_dynamic() -> None:
    with pytest.raises(
        ShapeError,
        match=r"reshape.*must be dynamic, got \{0\} of f32\[<=6\] to \{0,1\} of f32\[3,2\]",
    ):
        ops.reshape(Parameters()("f32[<=6]"), [3, 2])
    with pytest.raises(ShapeError, match=r"in \[0, 2\), got 2 for f32\[<=6\]"):
        ops.reshape(Parameters()("f32[<=6]"), [3, 2], inferred_dimension=2)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ((12,), (4, 3), [((0,), (0, 1))]),
        ((4, 6), (8, 3), [((0, 1), (0, 1))]),
        ((2, 3), (2, 3), [((0,), (0,)), ((1,), (1,))]),
        ((5,), (1, 5, 1), [((0,), (0, 1)), ((), (2,))]),
        ((1, 5), (5,), [((0,), ()), ((1,), (0,))]),
        ((1, 1), (1,), [((0,), (0,)), ((1,), ())]),
        ((), (), []),
    ],
)
def test_groups_of_dimensions_that_hold_as_many_elements(
    old: Sequence[int], new: Sequence[int], wanted: list[tuple[tuple[int, ...], tuple[int, ...]]]
) -> None:
    found = [(tuple(each.of_operand), tuple(each.of_result)) for each in groups(old, new)]
    assert found == wanted


@pytest.mark.parametrize(
    ("value", "requested", "fits"),
    [
        ("f32[<=3]", "f32[<=3]", True),
        ("f32[3]", "f32[<=3]", True),
        ("f32[<=3]", "f32[3]", False),
        ("f32[3]", "f32[<=4]", False),
        ("(f32[3], f32[<=3])", "(f32[3], f32[3])", False),
        ("(f32[3], token[])", "(f32[<=3], token[])", True),
    ],
)
def test_a_dynamic_value_is_none_of_a_static_shape(value: str, requested: str, fits: bool) -> None:
    assert Shape.parse(value).fits(Shape.parse(requested)) == fits

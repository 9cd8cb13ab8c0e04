"""Markers, shardings and values that do not fit, refused with the instruction."""

import re

import pytest

from tests.unit.passes.partitioning.grids import partitioned, region
from xla_contract.errors import InvalidArgumentError, ShapeError, UnimplementedError


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        (
            region(into="a,"),
            ShapeError,
            "custom-call %e: the part of f32[4,8] that a partition holds",
        ),
        (region(out="ab,"), ShapeError, "must be f32[1,8], got f32[2,4]"),
        (
            region(into="a,c"),
            InvalidArgumentError,
            "custom-call %e: an axis must be one of the mesh's, got 'c'",
        ),
        (
            region(into="a,b").replace("xla.sdy.in_shardings", "xla.in"),
            InvalidArgumentError,
            "xla.sdy.in_shardings must be there",
        ),
        (region().replace('"b"=2]>', '"b"=4]>'), ShapeError, "custom-call %e"),
        (
            region(into="a,", out="a,")
            .replace('"b"=2]>', '"b"=4]>')
            .replace("f32[2,4]", "f32[2,8]"),
            InvalidArgumentError,
            "for the 4 partitions of the program",
        ),
        (region(out="a,b!b"), InvalidArgumentError, "must not overlap"),
        (
            region(into=",b!a", out=",b!a")
            .replace("[2,4]", "[4,4]")
            .replace("f32", "pred")
            .replace("negate", "not")
            .replace("add(l", "or(l"),
            UnimplementedError,
            "an unreduced value must be of numbers, got pred[4,8]",
        ),
        (
            region("x = f32[4,8] parameter(0), sharding={devices=[2,2]0,1,2,2}"),
            InvalidArgumentError,
            "parameter %x: a sharding must name each device from 0 to 3 once",
        ),
        (
            region("x = f32[4,8] parameter(0), sharding={maximal device=4}"),
            InvalidArgumentError,
            "parameter %x: a sharding must name one of the 4 partitions of the program, got {max",
        ),
        (
            region("x = f32[4,8] parameter(0), sharding={devices=[1,3]<=[3]}"),
            ShapeError,
            "parameter %x: the tiles of a sharding must divide the dimension",
        ),
        (
            region("x = f32[4,8] parameter(0), sharding={devices=[2,1]<=[2]}"),
            InvalidArgumentError,
            "parameter %x: a sharding must be for the 4 partitions",
        ),
        (
            region(
                "p = (f32[4,8]) parameter(0), sharding={{devices=[2,2]<=[4]}}\n"
                "x = f32[4,8] get-tuple-element(p), index=0"
            ),
            UnimplementedError,
            "parameter %p: only parameters that are arrays",
        ),
        (
            region(
                after="t = (f32[4,8]) tuple(g)\n"
                "ROOT two = ((f32[4,8])) tuple(t), sharding={{devices=[2,2]<=[4]}}"
            ),
            UnimplementedError,
            "tuple %two: only parameters that are arrays",
        ),
    ],
)
def test_markers_and_shardings_that_do_not_fit_are_refused(
    text: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=re.escape(said)):
        partitioned(text)


def test_a_gspmd_marker_of_a_value_without_sharding_is_refused() -> None:
    text = """HloModule m
ENTRY main { x = f32[4] parameter(0)
  ROOT e = f32[4] custom-call(x), custom_call_target="SPMDFullToShardShape", sharding={manual} }"""
    with pytest.raises(InvalidArgumentError, match="sharding must be stated for %x, got none"):
        partitioned(text)


def test_tuples_that_do_not_fit_a_marker_are_refused() -> None:
    text = region().replace(
        '<@mesh, [{\\"a\\"}, {\\"b\\"}]>]', '<@mesh, [{\\"a\\"}, {\\"b\\"}]>, <@mesh, []>]', 1
    )
    with pytest.raises(
        ShapeError, match="one sharding and one result per operand, got 2 and 1 for 1"
    ):
        partitioned(text)

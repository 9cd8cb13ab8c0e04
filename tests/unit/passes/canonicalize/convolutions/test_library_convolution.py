"""Convolutions in the forms of a library: what is transposed or read backwards, what stays."""

import dataclasses

import pytest

from tests.unit.passes.passing import imported, opcodes, passed, rewritten
from xla_contract.types.opcode import Opcode
from xla_server.passes.canonicalize.convolutions.library_convolution import (
    LibraryConvolution,
    form_of,
)
from xla_server.target.gpu.convolution import Direction
from xla_server.target.gpu.gpu_capability import GpuCapability
from xla_server.target.machine import Machine
from xla_server.target.target import Target

WITHOUT = Target.of(Machine.cuda("sm_90"))
CAPABILITY = GpuCapability(has_convolutions=True, min_products=0)
BY_LIBRARY = LibraryConvolution(dataclasses.replace(WITHOUT, capability=CAPABILITY))


def convolution(labels: str, kernel: str, window: str, result: str, before: str = "") -> str:
    """Return the text of a convolution of f32[2,7,6,3] with a filter, which may be changed."""
    return f"""HloModule m
    ENTRY e {{ x = f32[2,7,6,3] parameter(0)
      w = f32[{kernel}] parameter(1)
      {before}
      ROOT r = f32[{result}] convolution(x, {"v" if before else "w"}), window={{{window}}},
        dim_labels={labels} }}"""


READY = convolution("b01f_o01i->b01f", "4,3,2,3", "size=3x2", "2,5,5,4")
MOVED = convolution("b01f_01io->b01f", "3,2,3,4", "size=3x2", "2,5,5,4")
REVERSED = convolution(
    "b01f_o01i->b01f",
    "4,3,2,3",
    "size=3x2 pad=2_2x1_1 lhs_dilate=2x1",
    "2,15,7,4",
    "u = f32[4,3,2,3] reverse(w), dimensions={1}\n v = f32[4,3,2,3] reverse(u), dimensions={2}",
)
GRADIENT = convolution("f01b_i01o->01bf", "2,6,5,4", "size=6x5", "2,2,3,4")


@pytest.mark.parametrize(
    ("text", "direction", "transposes"),
    [
        (MOVED, Direction.FORWARD, 1),
        (REVERSED, Direction.DATA_GRADIENT, 1),
        (GRADIENT, Direction.FILTER_GRADIENT, 1),
    ],
)
def test_filters_are_brought_to_where_images_have_channels(
    text: str, direction: Direction, transposes: int
) -> None:
    after = rewritten(imported(text), BY_LIBRARY, relative=1e-5)
    counts = opcodes(after)
    assert counts["transpose"] == transposes
    (made,) = (i for i in after.instructions() if i.opcode is Opcode.CONVOLUTION)
    form = form_of(made)
    assert form is not None
    assert form.is_ready(made)
    assert form.convolution.direction is direction
    passed(after, BY_LIBRARY, fires=False)


@pytest.mark.parametrize(
    "text",
    [
        READY,
        # A filter in part reversed, and images in an order that the library does not have.
        REVERSED.replace("v = f32[4,3,2,3] reverse(u), dimensions={2}", "v = f32[4,3,2,3] copy(u)"),
        MOVED.replace("b01f_01io->b01f", "b01f_01io->01bf").replace("f32[2,5,5,4]", "f32[5,5,2,4]"),
        MOVED.replace("size=3x2", "size=3x2 pad=0_0x-1_1"),
    ],
)
def test_other_convolutions_stay(text: str) -> None:
    passed(imported(text), BY_LIBRARY, fires=False)


def test_a_target_without_the_library_has_other_forms() -> None:
    passed(imported(MOVED), LibraryConvolution(WITHOUT), fires=False)

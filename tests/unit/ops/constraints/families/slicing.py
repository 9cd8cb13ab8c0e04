"""Broken slices, updates and padding."""

from collections.abc import Sequence

from tests.unit.ops.constraints.case import Case
from xla_client import ops
from xla_contract.ops.indexing.dynamic_slice import DynamicSliceAttributes
from xla_contract.ops.shaping.pad import PadAttributes
from xla_contract.ops.shaping.slice import SliceAttributes
from xla_contract.types.dimension_numbers import PaddingConfig, PaddingDimension
from xla_contract.types.opcode import Opcode

_STARTS = "start indices must have one entry per dimension, got "
_SIZES = "sizes must be in [0, size of the operand], got "

_ONE_RECORD = "start, limit and stride of a dimension are one message"


def _slice(
    operand: str,
    box: tuple[Sequence[int], Sequence[int], Sequence[int]],
    message: str,
    off_wire: str = "",
) -> Case:
    starts, limits, strides = box
    return Case(
        Opcode.SLICE,
        (operand,),
        message,
        SliceAttributes(tuple(starts), tuple(limits), tuple(strides)),
        lambda x: ops.slice(x, starts, limits, strides),
        off_wire=off_wire,
    )


def _dynamic_slice(operands: Sequence[str], sizes: tuple[int, ...], message: str) -> Case:
    return Case(
        Opcode.DYNAMIC_SLICE,
        operands,
        message,
        DynamicSliceAttributes(sizes),
        lambda x, *starts: ops.dynamic_slice(x, starts, sizes),
    )


def _update(operands: Sequence[str], message: str) -> Case:
    return Case(
        Opcode.DYNAMIC_UPDATE_SLICE,
        operands,
        message,
        build=lambda x, update, *starts: ops.dynamic_update_slice(x, update, starts),
    )


def _pad(operands: tuple[str, str], amounts: Sequence[tuple[int, int, int]], message: str) -> Case:
    config = PaddingConfig(tuple(PaddingDimension(*amount) for amount in amounts))
    return Case(
        Opcode.PAD,
        operands,
        message,
        PadAttributes(config),
        lambda x, value: ops.pad(x, value, config),
    )


_SLICES = (
    _slice("token[]", ((), (), ()), "the operand must be an array, got token[]"),
    _slice(
        "f32[4,4]",
        ((0,), (4,), (1,)),
        "starts must have one entry per dimension, got 1 for f32[4,4]",
    ),
    _slice(
        "f32[4]",
        ((0,), (), (1,)),
        "limits must have one entry per dimension, got 0 for f32[4]",
        off_wire=_ONE_RECORD,
    ),
    _slice(
        "f32[4]",
        ((0,), (4,), (1, 1)),
        "strides must have one entry per dimension, got 2 for f32[4]",
        off_wire=_ONE_RECORD,
    ),
    _slice(
        "f32[4]",
        ((-1,), (2,), (1,)),
        "0 <= start <= limit <= 4 must hold, got [-1:2:1] in dimension 0 of f32[4]",
    ),
    _slice(
        "f32[4]",
        ((0,), (4,), (0,)),
        "strides must be positive, got [0:4:0] in dimension 0 of f32[4]",
    ),
)

_DYNAMIC_SLICES = (
    Case(
        Opcode.DYNAMIC_SLICE,
        (),
        "an operand and start indices are needed, got 0 operands",
        DynamicSliceAttributes(()),
    ),
    _dynamic_slice(["(f32[4])"], (), "the operand must be an array, got (f32[4])"),
    _dynamic_slice(
        ["f32[4,4]", "s32[]", "s32[]"],
        (2,),
        "sizes must have one entry per dimension, got 1 for f32[4,4]",
    ),
    _dynamic_slice(["f32[4,4]", "s32[]"], (2, 2), _STARTS + "1 for f32[4,4]"),
    _dynamic_slice(
        ["f32[4]", "f32[]"], (2,), "the element type of start indices must be integral, got f32[]"
    ),
    _dynamic_slice(["f32[4]", "token[]"], (2,), "start indices must be an array, got token[]"),
    _dynamic_slice(
        ["f32[4,4]", "s32[1]"],
        (2, 2),
        "the vector of start indices must have one entry per dimension, got s32[1] for f32[4,4]",
    ),
    _dynamic_slice(
        ["f32[4,4]", "s32[1]", "s32[1]"], (2, 2), "a start index must be a scalar, got s32[1]"
    ),
    _dynamic_slice(
        ["f32[4,4]", "s32[]", "s64[]"],
        (2, 2),
        "start indices must have the same element type, got s32[] and s64[]",
    ),
    _dynamic_slice(["f32[4]", "s32[]"], (-1,), _SIZES + "-1 in dimension 0 of f32[4]"),
)

_UPDATES = (
    Case(
        Opcode.DYNAMIC_UPDATE_SLICE,
        ("f32[4]",),
        "an operand, an update and start indices are needed, got 1 operands",
    ),
    _update(["(f32[4])", "f32[2]"], "the operand must be an array, got (f32[4])"),
    _update(["f32[4]", "token[]"], "the update must be an array, got token[]"),
    _update(
        ["f32[4]", "s32[2]", "s32[]"],
        "the operand and the update must have the same element type, got f32[4] and s32[2]",
    ),
    _update(
        ["f32[4,4]", "f32[2]", "s32[]", "s32[]"],
        "the update f32[2] must have one entry per dimension, got 1 for f32[4,4]",
    ),
    _update(
        ["f32[4]", "f32[5]", "s32[]"],
        "the sizes of the update must be in [0, size of the operand], got 5 in dimension 0 of "
        "f32[4]",
    ),
    _update(["f32[4]", "f32[2]"], _STARTS + "0 for f32[4]"),
)

_PADS = (
    _pad(("(f32[2])", "f32[]"), (), "the operand must be an array, got (f32[2])"),
    _pad(("f32[2]", "f32[1]"), [(0, 0, 0)], "the padding value must be a scalar, got f32[1]"),
    _pad(
        ("f32[2]", "s32[]"),
        [(0, 0, 0)],
        "the operand and the padding value must have the same element type, got f32[2] and s32[]",
    ),
    _pad(
        ("f32[2,2]", "f32[]"),
        [(0, 0, 0)],
        "the padding must have one entry per dimension, got 1 for f32[2,2]",
    ),
    _pad(
        ("f32[2]", "f32[]"),
        [(0, 0, -1)],
        "interior padding must not be negative, got 0_0_-1 in dimension 0 of f32[2]",
    ),
    _pad(
        ("f32[2]", "f32[]"),
        [(-2, -1, 0)],
        "padding must not cut off more than there is, got -2_-1 in dimension 0 of f32[2]",
    ),
)

CASES: tuple[Case, ...] = (*_SLICES, *_DYNAMIC_SLICES, *_UPDATES, *_PADS)

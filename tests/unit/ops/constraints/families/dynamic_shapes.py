"""Broken sizes that are known when the program runs."""

from collections.abc import Sequence
from typing import Any

from tests.unit.ops.constraints.case import Case
from xla_client import ops
from xla_contract.ops.shaping.dynamic_reshape import DynamicReshapeAttributes
from xla_contract.ops.shaping.get_dimension_size import GetDimensionSizeAttributes
from xla_contract.ops.shaping.reshape import ReshapeAttributes
from xla_contract.ops.shaping.set_dimension_size import SetDimensionSizeAttributes
from xla_contract.types.opcode import Opcode

_ONE_DIMENSION = "the function takes one dimension number"


def _get(message: str, operand: str, dimension: int = 0) -> Case:
    return Case(
        Opcode.GET_DIMENSION_SIZE,
        (operand,),
        message,
        GetDimensionSizeAttributes(dimension),
        lambda x: ops.get_dimension_size(x, dimension),
        declared="s32[]",
    )


def _set(
    message: str, operands: Sequence[str], dimension: int = 0, declared: str = "f32[<=4]"
) -> Case:
    return Case(
        Opcode.SET_DIMENSION_SIZE,
        operands,
        message,
        SetDimensionSizeAttributes(dimension),
        lambda x, size: ops.set_dimension_size(x, size, dimension),
        declared=declared,
    )


def _reshape(
    message: str, operands: Sequence[str], bounds: Sequence[int] = (2, 2), build: Any = None
) -> Case:
    flags = (True,) + (False,) * (len(bounds) - 1)
    sizes = "<=" + ",".join(map(str, bounds))
    return Case(
        Opcode.DYNAMIC_RESHAPE,
        operands,
        message,
        DynamicReshapeAttributes(tuple(bounds), flags),
        build or (lambda x, *given: ops.dynamic_reshape(x, given, bounds, flags)),
        declared=f"f32[{sizes}]",
    )


CASES: tuple[Case, ...] = (
    _get("the operand must be an array, got (f32[2])", "(f32[2])"),
    _get("the dimension must be in [0, 1), got 1 for f32[2]", "f32[2]", 1),
    _get("the dimension must be in [0, 1), got -1 for f32[2]", "f32[2]", -1),
    _get("the size must fit into s32, got dimension 0 of pred[2147483648]", "pred[2147483648]"),
    Case(
        Opcode.GET_DIMENSION_SIZE,
        ("f32[2,2]",),
        "dimensions must hold the measured dimension alone, got {0,1}",
        GetDimensionSizeAttributes(0),
        _ONE_DIMENSION,
        declared="s32[]",
        edit=lambda proto: proto.dimensions.append(1),
    ),
    _set("the operand must be an array, got token[]", ("token[]", "s32[]")),
    _set("the dimension must be in [0, 1), got 1 for f32[4]", ("f32[4]", "s32[]"), 1),
    _set("the dimension must be in [0, 1), got -1 for f32[4]", ("f32[4]", "s32[]"), -1),
    _set("the size must be s32[], got s32[1]", ("f32[4]", "s32[1]")),
    _set(
        "the bound must fit into s32, got dimension 0 of pred[2147483648]",
        ("pred[2147483648]", "s32[]"),
        declared="pred[<=2147483648]",
    ),
    Case(
        Opcode.SET_DIMENSION_SIZE,
        ("f32[2,2]", "s32[]"),
        "dimensions must hold the resized dimension alone, got {0,1}",
        SetDimensionSizeAttributes(0),
        _ONE_DIMENSION,
        declared="f32[<=2,2]",
        edit=lambda proto: proto.dimensions.append(1),
    ),
    _reshape(
        "an operand and its new sizes are needed, got 0 operands",
        (),
        build="the function takes an operand",
    ),
    _reshape("the operand must be an array, got (f32[4])", ("(f32[4])", "s32[]", "s32[]")),
    _reshape("size 1 must be s32[], got s64[]", ("f32[4]", "s32[]", "s64[]")),
    _reshape(
        "the sizes must have one entry per dimension, got 1 for f32[<=2,2]", ("f32[4]", "s32[]")
    ),
    _reshape(
        "operand and result must hold the same number of elements, got 4 of f32[4] "
        "and 6 of f32[<=2,3]",
        ("f32[4]", "s32[]", "s32[]"),
        (2, 3),
    ),
    Case(
        Opcode.RESHAPE,
        ("f32[<=6]",),
        "one of the dimensions that a dynamic dimension becomes must be dynamic, got {0} of "
        "f32[<=6] to {0,1} of f32[2,3]",
        ReshapeAttributes((2, 3)),
        lambda x: ops.reshape(x, (2, 3)),
        declared="f32[2,3]",
    ),
)

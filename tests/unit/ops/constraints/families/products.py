"""Broken sums of products: dot, ragged-dot and convolution."""

import dataclasses
from typing import Any

from tests.unit.ops.constraints.case import Case
from xla_client import ops
from xla_contract.ops.contraction.convolution import ConvolutionAttributes
from xla_contract.ops.contraction.dot import DotAttributes
from xla_contract.ops.contraction.ragged_dot import RaggedDotAttributes
from xla_contract.types.dimension_numbers import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    Window,
    WindowDimension,
)
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode

_CONTRACTED = "contracting dimensions must have equal size, got "
_LHS = "lhs contracting and batch dimensions must be distinct and in range [0, 2), got "
_RHS = "rhs contracting and batch dimensions must be distinct and in range [0, 2), got "
_PREFERRED = "the preferred element type must not be narrower than the operands, got "
_GROUP_SIZES = "group sizes must be integers of dimensions [groups] or [groups], got "
_GROUP_DIMENSION = "rhs must have a group dimension exactly when the ragged dimension is free, got "
_INPUT_NUMBERS = (
    "the input dimension numbers must name each of 1 spatial dimensions and two more once, got "
)
_KERNEL_NUMBERS = (
    "the kernel dimension numbers must name each of 1 spatial dimensions and two more once, got "
)
_GROUP_COUNTS = "group counts must be positive and at most one of them above 1, got "
_OUTPUT_FEATURES = "the kernel's output features must be a multiple of the group count, got "

_MATRICES = DotDimensionNumbers((1,), (0,))
_TYPE_IS_SAID = "the instruction's shape says which type is preferred"
_GROUPED = DotDimensionNumbers((1,), (1,))


def _dot(
    operands: str,
    message: str,
    numbers: DotDimensionNumbers = _MATRICES,
    preferred: ElementType | None = None,
    declared: str = "f32[2]",
    off_wire: str = "",
) -> Case:
    return Case(
        Opcode.DOT,
        operands.split(),
        message,
        DotAttributes(numbers, preferred),
        lambda lhs, rhs: ops.dot_general(lhs, rhs, numbers, preferred_element_type=preferred),
        declared=declared,
        off_wire=off_wire,
    )


_DOTS = (
    _dot("f32[2,3] token[]", "an operand must be an array, got token[]"),
    _dot(
        "f32[2,3] f32[4,5]", _CONTRACTED + "lhs dim 1 = 3 of f32[2,3] and rhs dim 0 = 4 of f32[4,5]"
    ),
    _dot(
        "f32[2,3] f32[4,3]",
        "batch dimensions must have equal size, got lhs dim 0 = 2 of f32[2,3] and rhs dim 0 ="
        " 4 of f32[4,3]",
        DotDimensionNumbers((1,), (1,), (0,), (0,)),
    ),
    _dot(
        "f32[2,3] f32[3,2]",
        "lhs and rhs must have as many contracting dimensions, got 2 of f32[2,3] and 1 of f32[3,2]",
        DotDimensionNumbers((0, 1), (0,)),
    ),
    _dot(
        "f32[2,3] f32[3,2]",
        "lhs and rhs must have as many batch dimensions, got 0 of f32[2,3] and 1 of f32[3,2]",
        DotDimensionNumbers((1,), (0,), (), (1,)),
    ),
    _dot("f32[2,2] f32[2,2]", _LHS + "{2} for f32[2,2]", DotDimensionNumbers((2,), (0,))),
    _dot("f32[2,2] f32[2,2]", _RHS + "{-1} for f32[2,2]", DotDimensionNumbers((1,), (-1,))),
    _dot(
        "f32[2,3] s32[3,4]",
        "operands must have one element type, got lhs f32[2,3] and rhs s32[3,4]",
        off_wire=_TYPE_IS_SAID,
    ),
    _dot(
        "s32[2,3] s32[3,4]",
        _PREFERRED + "s16 for lhs s32[2,3] and rhs s32[3,4]",
        preferred=ElementType.S16,
        declared="s16[2,4]",
    ),
    _dot(
        "c64[2,3] c64[3,4]",
        "a product of complex operands must be complex, got f64 for lhs c64[2,3] and rhs c64[3,4]",
        preferred=ElementType.F64,
        declared="f64[2,4]",
    ),
)


def _ragged(
    message: str,
    operands: str = "f32[6,3] f32[2,3,4] s32[2]",
    numbers: DotDimensionNumbers = _GROUPED,
    ragged: int = 0,
    group: int | None = 0,
) -> Case:
    return Case(
        Opcode.RAGGED_DOT,
        operands.split(),
        message,
        RaggedDotAttributes(numbers, ragged, group, ElementType.F32),
        lambda lhs, rhs, sizes: ops.ragged_dot(
            lhs, rhs, sizes, numbers, ragged, group, preferred_element_type=ElementType.F32
        ),
        declared="f32[6,4]",
    )


_RAGGED_DOTS = (
    _ragged("an operand must be an array, got (f32[6,3])", "(f32[6,3]) f32[2,3,4] s32[2]"),
    _ragged(
        _CONTRACTED + "lhs dim 1 = 5 of f32[6,5] and rhs dim 1 = 3 of f32[2,3,4]",
        "f32[6,5] f32[2,3,4] s32[2]",
    ),
    _ragged("the ragged dimension must be one of lhs, got 2 for f32[6,3]", ragged=2),
    _ragged(_GROUP_SIZES + "f32[2] for lhs f32[6,3]", "f32[6,3] f32[2,3,4] f32[2]"),
    _ragged(_GROUP_SIZES + "s32[5,2] for lhs f32[6,3]", "f32[6,3] f32[2,3,4] s32[5,2]"),
    _ragged(_GROUP_DIMENSION + "0 for the contracting dimension 1", ragged=1),
    _ragged(
        "the group dimension must be a free one of rhs, got 1 for f32[2,3,4] with free "
        "dimensions {0,2}",
        group=1,
    ),
    _ragged(
        "the group dimension must have the size 3 of the group sizes, got dimension 0 of "
        "f32[2,3,4]",
        "f32[6,3] f32[2,3,4] s32[3]",
    ),
    Case(
        Opcode.RAGGED_DOT,
        ("f32[6,3]", "f32[2,3,4]", "s32[2]"),
        "ragged-dot must have one ragged dimension and at most one group dimension, got [0, "
        "1] and [0]",
        RaggedDotAttributes(DotDimensionNumbers((1,), (1,)), 0, 0, ElementType.F32),
        "the function takes one ragged and one group dimension",
        declared="f32[6,4]",
        edit=lambda proto: proto.ragged_dot_dimension_numbers.lhs_ragged_dimensions.append(1),
    ),
)

_SCALES = "f8e8m0fnu[2,1] f8e8m0fnu[1,4]"


def _scaled(message: str, operands: str, preferred: ElementType | None = None) -> Case:
    return Case(
        Opcode.SCALED_DOT,
        operands.split(),
        message,
        DotAttributes(_MATRICES, preferred),
        lambda *given: ops.scaled_dot(*given, _MATRICES, preferred_element_type=preferred),
        declared=f"{preferred.text if preferred else 'f8e5m2'}[2,4]",
    )


_SCALED_DOTS = (
    _scaled(
        "an operand must be an array, got (f8e5m2[2,3])", f"(f8e5m2[2,3]) f8e5m2[3,4] {_SCALES}"
    ),
    _scaled(
        "operands and scales must be floating-point, got s8[2,1]",
        "f8e5m2[2,3] f8e5m2[3,4] s8[2,1] s8[1,4]",
    ),
    _scaled(
        _CONTRACTED + "lhs dim 1 = 3 of f8e5m2[2,3] and rhs dim 0 = 5 of f8e5m2[5,4]",
        f"f8e5m2[2,3] f8e5m2[5,4] {_SCALES}",
    ),
    _scaled(
        "the result must be floating-point, got s32[2,4]",
        f"f8e5m2[2,3] f8e5m2[3,4] {_SCALES}",
        ElementType.S32,
    ),
    _scaled(
        "the scale of lhs must be a scalar or have the rank of lhs, got f8e8m0fnu[2] for "
        "f8e5m2[2,3]",
        "f8e5m2[2,3] f8e5m2[3,4] f8e8m0fnu[2] f8e8m0fnu[1,4]",
    ),
    _scaled(
        "every dimension of the scale of rhs must divide that of rhs, got dim 0 = 2 of "
        "f8e8m0fnu[2,4] for 3 of f8e5m2[3,4]",
        "f8e5m2[2,3] f8e5m2[3,4] f8e8m0fnu[] f8e8m0fnu[2,4]",
    ),
    _scaled(
        "every dimension of the scale of lhs must divide that of lhs, got dim 0 = 0 of "
        "f8e8m0fnu[0,3] for 2 of f8e5m2[2,3]",
        "f8e5m2[2,3] f8e5m2[3,4] f8e8m0fnu[0,3] f8e8m0fnu[]",
    ),
)

_NUMBERS = ConvolutionDimensionNumbers(0, 1, (2,), 1, 0, (2,), 0, 1, (2,))


def _convolution(
    message: str,
    operands: str = "f32[4,6,9] f32[6,6,3]",
    numbers: ConvolutionDimensionNumbers = _NUMBERS,
    by_feature: int = 1,
    by_batch: int = 1,
    preferred: ElementType | None = None,
    declared: str = "f32[4,6,7]",
    off_wire: str = "",
    build: Any = None,
    at_call: str = "",
    **window: int,
) -> Case:
    dimension = WindowDimension(**{"size": 3, **window})
    pads = [(dimension.padding_low, dimension.padding_high)]
    base, inner = [dimension.base_dilation], [dimension.window_dilation]

    def stated(lhs: Any, rhs: Any) -> object:
        return ops.conv_general_dilated(
            lhs,
            rhs,
            [dimension.stride],
            pads,
            base,
            inner,
            numbers,
            by_feature,
            by_batch,
            preferred_element_type=preferred,
        )

    return Case(
        Opcode.CONVOLUTION,
        operands.split(),
        message,
        ConvolutionAttributes(Window((dimension,)), numbers, by_feature, by_batch, preferred),
        build or stated,
        declared=declared,
        off_wire=off_wire,
        at_call=at_call,
    )


_KERNEL_SIZES = "the function takes the window's sizes from the kernel"
_OF_KERNEL = "a dimension of rank"

_CONVOLUTIONS = (
    _convolution("an operand must be an array, got (f32[4,6,9])", "(f32[4,6,9]) f32[6,6,3]"),
    _convolution(
        "an operand must be an array, got token[]", "f32[4,6,9] token[]", at_call=_OF_KERNEL
    ),
    _convolution(_INPUT_NUMBERS + "{0,1,2} for f32[4,6]", "f32[4,6] f32[6,6,3]"),
    _convolution(
        "the output dimension numbers must name each of 1 spatial dimensions and two more "
        "once, got {0,3,2} for {size=3}",
        numbers=dataclasses.replace(_NUMBERS, output_feature_dimension=3),
    ),
    _convolution(
        "the window must have the kernel's spatial sizes, got {size=2} and f32[6,6,3] with "
        "dimension numbers bf0_oi0->bf0",
        size=2,
        build=_KERNEL_SIZES,
    ),
    _convolution(
        "a window's size must be positive, got 0 in dimension 0 of {size=0}",
        "f32[4,6,9] f32[6,6,0]",
        size=0,
    ),
    _convolution(_GROUP_COUNTS + "feature_group_count=-1 and batch_group_count=1", by_feature=-1),
    _convolution(_GROUP_COUNTS + "feature_group_count=1 and batch_group_count=-1", by_batch=-1),
    _convolution(
        _GROUP_COUNTS + "feature_group_count=2 and batch_group_count=2", by_feature=2, by_batch=2
    ),
    _convolution(
        "the input's features must be the kernel's input features times feature_group_count, "
        "got input dim 1 = 5 of f32[4,5,9] and kernel dim 1 = 6 of f32[6,6,3] times 1",
        "f32[4,5,9] f32[6,6,3]",
    ),
    _convolution(
        _OUTPUT_FEATURES + "kernel dim 0 = 5 of f32[5,3,3] and 2",
        "f32[4,6,9] f32[5,3,3]",
        by_feature=2,
    ),
    _convolution(
        _OUTPUT_FEATURES + "kernel dim 0 = 5 of f32[5,6,3] and 2",
        "f32[4,6,9] f32[5,6,3]",
        by_batch=2,
    ),
    _convolution(
        "the input's batch must be a multiple of batch_group_count, got input dim 0 = 5 of "
        "f32[5,6,9] and 2",
        "f32[5,6,9] f32[6,6,3]",
        by_batch=2,
    ),
    _convolution(
        "operands must have one element type, got lhs f32[4,6,9] and rhs s32[6,6,3]",
        "f32[4,6,9] s32[6,6,3]",
        off_wire=_TYPE_IS_SAID,
    ),
    _convolution(
        _PREFERRED + "s8 for lhs s32[4,6,9] and rhs s32[6,6,3]",
        "s32[4,6,9] s32[6,6,3]",
        preferred=ElementType.S8,
        declared="s8[4,6,7]",
    ),
)

CASES: tuple[Case, ...] = (*_DOTS, *_RAGGED_DOTS, *_SCALED_DOTS, *_CONVOLUTIONS)

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

_MATRICES = DotDimensionNumbers((1,), (0,))
_TYPE_IS_SAID = "the instruction's shape says which type is preferred"
_GROUPED = DotDimensionNumbers((1,), (1,))


def _dot(
    name: str,
    operands: str,
    message: str,
    numbers: DotDimensionNumbers = _MATRICES,
    preferred: ElementType | None = None,
    declared: str = "f32[2]",
    off_wire: str = "",
) -> Case:
    return Case(
        name,
        Opcode.DOT,
        operands.split(),
        message,
        DotAttributes(numbers, preferred),
        lambda lhs, rhs: ops.dot_general(lhs, rhs, numbers, preferred_element_type=preferred),
        declared=declared,
        off_wire=off_wire,
    )


_DOTS = (
    _dot("of-a-tuple", "(f32[2,3]) f32[3,4]", "an operand must be an array, got (f32[2,3])"),
    _dot("with-a-token", "f32[2,3] token[]", "an operand must be an array, got token[]"),
    _dot(
        "of-different-sizes",
        "f32[2,3] f32[4,5]",
        "contracting dimensions must have equal size, got lhs dim 1 = 3 of f32[2,3] and rhs "
        "dim 0 = 4 of f32[4,5]",
    ),
    _dot(
        "of-different-batches",
        "f32[2,3] f32[4,3]",
        "batch dimensions must have equal size, got lhs dim 0 = 2 of f32[2,3] and rhs dim 0 ="
        " 4 of f32[4,3]",
        DotDimensionNumbers((1,), (1,), (0,), (0,)),
    ),
    _dot(
        "with-more-contracted-on-the-left",
        "f32[2,3] f32[3,2]",
        "lhs and rhs must have as many contracting dimensions, got 2 of f32[2,3] and 1 of f32[3,2]",
        DotDimensionNumbers((0, 1), (0,)),
    ),
    _dot(
        "with-more-batches-on-the-right",
        "f32[2,3] f32[3,2]",
        "lhs and rhs must have as many batch dimensions, got 0 of f32[2,3] and 1 of f32[3,2]",
        DotDimensionNumbers((1,), (0,), (), (1,)),
    ),
    _dot(
        "over-one-dimension-of-lhs-twice",
        "f32[2,2] f32[2,2]",
        "lhs contracting and batch dimensions must be distinct and in range [0, 2), got {0,0}"
        " for f32[2,2]",
        DotDimensionNumbers((0, 0), (0, 1)),
    ),
    _dot(
        "over-one-dimension-of-rhs-twice",
        "f32[2,2] f32[2,2]",
        "rhs contracting and batch dimensions must be distinct and in range [0, 2), got {1,1}"
        " for f32[2,2]",
        DotDimensionNumbers((0, 1), (1, 1)),
    ),
    _dot(
        "over-a-batch-dimension",
        "f32[2,2] f32[2,2]",
        "lhs contracting and batch dimensions must be distinct and in range [0, 2), got {0,0}"
        " for f32[2,2]",
        DotDimensionNumbers((0,), (0,), (0,), (1,)),
    ),
    _dot(
        "over-no-dimension-of-lhs",
        "f32[2,2] f32[2,2]",
        "lhs contracting and batch dimensions must be distinct and in range [0, 2), got {2} "
        "for f32[2,2]",
        DotDimensionNumbers((2,), (0,)),
    ),
    _dot(
        "over-a-negative-dimension-of-rhs",
        "f32[2,2] f32[2,2]",
        "rhs contracting and batch dimensions must be distinct and in range [0, 2), got {-1} "
        "for f32[2,2]",
        DotDimensionNumbers((1,), (-1,)),
    ),
    _dot(
        "of-different-types",
        "f32[2,3] s32[3,4]",
        "operands must have one element type, got lhs f32[2,3] and rhs s32[3,4]",
        off_wire=_TYPE_IS_SAID,
    ),
    _dot(
        "in-a-narrower-integer",
        "s32[2,3] s32[3,4]",
        "the preferred element type must not be narrower than the operands, got s16 for lhs "
        "s32[2,3] and rhs s32[3,4]",
        preferred=ElementType.S16,
        declared="s16[2,4]",
    ),
    _dot(
        "of-complex-numbers-in-a-real-type",
        "c64[2,3] c64[3,4]",
        "a product of complex operands must be complex, got f64 for lhs c64[2,3] and rhs c64[3,4]",
        preferred=ElementType.F64,
        declared="f64[2,4]",
    ),
)


def _ragged(
    name: str,
    message: str,
    operands: str = "f32[6,3] f32[2,3,4] s32[2]",
    numbers: DotDimensionNumbers = _GROUPED,
    ragged: int = 0,
    group: int | None = 0,
) -> Case:
    return Case(
        name,
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
    _ragged(
        "of-a-tuple", "an operand must be an array, got (f32[6,3])", "(f32[6,3]) f32[2,3,4] s32[2]"
    ),
    _ragged(
        "of-different-sizes",
        "contracting dimensions must have equal size, got lhs dim 1 = 5 of f32[6,5] and rhs "
        "dim 1 = 3 of f32[2,3,4]",
        "f32[6,5] f32[2,3,4] s32[2]",
    ),
    _ragged(
        "along-no-dimension",
        "the ragged dimension must be one of lhs, got 2 for f32[6,3]",
        ragged=2,
    ),
    _ragged(
        "with-fractional-sizes",
        "group sizes must be integers of dimensions [groups] or [groups], got f32[2] for lhs "
        "f32[6,3]",
        "f32[6,3] f32[2,3,4] f32[2]",
    ),
    _ragged(
        "with-sizes-of-other-dimensions",
        "group sizes must be integers of dimensions [groups] or [groups], got s32[5,2] for "
        "lhs f32[6,3]",
        "f32[6,3] f32[2,3,4] s32[5,2]",
    ),
    _ragged(
        "without-a-group-dimension",
        "rhs must have a group dimension exactly when the ragged dimension is free, got none "
        "for the free dimension 0",
        group=None,
    ),
    _ragged(
        "with-groups-of-a-contracting-dimension",
        "rhs must have a group dimension exactly when the ragged dimension is free, got 0 for"
        " the contracting dimension 1",
        ragged=1,
    ),
    _ragged(
        "with-groups-along-a-contracting-dimension",
        "the group dimension must be a free one of rhs, got 1 for f32[2,3,4] with free "
        "dimensions {0,2}",
        group=1,
    ),
    _ragged(
        "with-another-number-of-groups",
        "the group dimension must have the size 3 of the group sizes, got dimension 0 of "
        "f32[2,3,4]",
        "f32[6,3] f32[2,3,4] s32[3]",
    ),
    Case(
        "of-two-dimensions",
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


def _scaled(name: str, message: str, operands: str, preferred: ElementType | None = None) -> Case:
    return Case(
        name,
        Opcode.SCALED_DOT,
        operands.split(),
        message,
        DotAttributes(_MATRICES, preferred),
        lambda *given: ops.scaled_dot(*given, _MATRICES, preferred_element_type=preferred),
        declared=f"{preferred.text if preferred else 'f8e5m2'}[2,4]",
    )


_SCALED_DOTS = (
    _scaled(
        "of-a-tuple",
        "an operand must be an array, got (f8e5m2[2,3])",
        f"(f8e5m2[2,3]) f8e5m2[3,4] {_SCALES}",
    ),
    _scaled(
        "of-integers",
        "operands and scales must be floating-point, got s8[2,3]",
        f"s8[2,3] s8[3,4] {_SCALES}",
    ),
    _scaled(
        "by-integers",
        "operands and scales must be floating-point, got s8[2,1]",
        "f8e5m2[2,3] f8e5m2[3,4] s8[2,1] s8[1,4]",
    ),
    _scaled(
        "of-different-sizes",
        "contracting dimensions must have equal size, got lhs dim 1 = 3 of f8e5m2[2,3] and "
        "rhs dim 0 = 5 of f8e5m2[5,4]",
        f"f8e5m2[2,3] f8e5m2[5,4] {_SCALES}",
    ),
    _scaled(
        "to-integers",
        "the result must be floating-point, got s32[2,4]",
        f"f8e5m2[2,3] f8e5m2[3,4] {_SCALES}",
        ElementType.S32,
    ),
    _scaled(
        "by-a-vector",
        "the scale of lhs must be a scalar or have the rank of lhs, got f8e8m0fnu[2] for "
        "f8e5m2[2,3]",
        "f8e5m2[2,3] f8e5m2[3,4] f8e8m0fnu[2] f8e8m0fnu[1,4]",
    ),
    _scaled(
        "by-a-scale-that-does-not-divide",
        "every dimension of the scale of rhs must divide that of rhs, got dim 0 = 2 of "
        "f8e8m0fnu[2,4] for 3 of f8e5m2[3,4]",
        "f8e5m2[2,3] f8e5m2[3,4] f8e8m0fnu[] f8e8m0fnu[2,4]",
    ),
    _scaled(
        "by-an-empty-scale",
        "every dimension of the scale of lhs must divide that of lhs, got dim 0 = 0 of "
        "f8e8m0fnu[0,3] for 2 of f8e5m2[2,3]",
        "f8e5m2[2,3] f8e5m2[3,4] f8e8m0fnu[0,3] f8e8m0fnu[]",
    ),
)

_NUMBERS = ConvolutionDimensionNumbers(0, 1, (2,), 1, 0, (2,), 0, 1, (2,))


def _convolution(
    name: str,
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
        name,
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
    _convolution(
        "of-a-tuple", "an operand must be an array, got (f32[4,6,9])", "(f32[4,6,9]) f32[6,6,3]"
    ),
    _convolution(
        "with-a-token",
        "an operand must be an array, got token[]",
        "f32[4,6,9] token[]",
        at_call=_OF_KERNEL,
    ),
    _convolution(
        "of-another-rank",
        "the input dimension numbers must name each of 1 spatial dimensions and two more "
        "once, got {0,1,2} for f32[4,6]",
        "f32[4,6] f32[6,6,3]",
    ),
    _convolution(
        "by-a-kernel-of-another-rank",
        "the kernel dimension numbers must name each of 1 spatial dimensions and two more "
        "once, got {1,0,2} for f32[6,6,3,3]",
        "f32[4,6,9] f32[6,6,3,3]",
    ),
    _convolution(
        "of-one-input-dimension-twice",
        "the input dimension numbers must name each of 1 spatial dimensions and two more "
        "once, got {0,0,2} for f32[4,6,9]",
        numbers=dataclasses.replace(_NUMBERS, input_feature_dimension=0),
    ),
    _convolution(
        "of-one-kernel-dimension-twice",
        "the kernel dimension numbers must name each of 1 spatial dimensions and two more "
        "once, got {0,0,2} for f32[6,6,3]",
        numbers=dataclasses.replace(_NUMBERS, kernel_input_feature_dimension=0),
    ),
    _convolution(
        "of-no-output-dimension",
        "the output dimension numbers must name each of 1 spatial dimensions and two more "
        "once, got {0,3,2} for {size=3}",
        numbers=dataclasses.replace(_NUMBERS, output_feature_dimension=3),
    ),
    _convolution(
        "of-more-output-dimensions",
        "the output dimension numbers must name each of 1 spatial dimensions and two more "
        "once, got {0,1,2,3} for {size=3}",
        numbers=dataclasses.replace(_NUMBERS, output_spatial_dimensions=(2, 3)),
    ),
    _convolution(
        "with-another-window",
        "the window must have the kernel's spatial sizes, got {size=2} and f32[6,6,3] with "
        "dimension numbers bf0_oi0->bf0",
        size=2,
        build=_KERNEL_SIZES,
    ),
    _convolution(
        "with-an-empty-window",
        "a window's size must be positive, got 0 in dimension 0 of {size=0}",
        "f32[4,6,9] f32[6,6,0]",
        size=0,
    ),
    _convolution(
        "without-a-stride",
        "a window's stride must be positive, got 0 in dimension 0 of {size=3 stride=0}",
        stride=0,
    ),
    _convolution(
        "with-a-negative-base-dilation",
        "a window's base_dilation must be positive, got -1 in dimension 0 of {size=3 "
        "lhs_dilate=-1}",
        base_dilation=-1,
    ),
    _convolution(
        "without-a-window-dilation",
        "a window's window_dilation must be positive, got 0 in dimension 0 of {size=3 "
        "rhs_dilate=0}",
        window_dilation=0,
    ),
    _convolution(
        "in-no-feature-groups",
        "group counts must be positive and at most one of them above 1, got "
        "feature_group_count=-1 and batch_group_count=1",
        by_feature=-1,
    ),
    _convolution(
        "in-no-batch-groups",
        "group counts must be positive and at most one of them above 1, got "
        "feature_group_count=1 and batch_group_count=-1",
        by_batch=-1,
    ),
    _convolution(
        "in-groups-of-both-kinds",
        "group counts must be positive and at most one of them above 1, got "
        "feature_group_count=2 and batch_group_count=2",
        by_feature=2,
        by_batch=2,
    ),
    _convolution(
        "of-other-features",
        "the input's features must be the kernel's input features times feature_group_count, "
        "got input dim 1 = 5 of f32[4,5,9] and kernel dim 1 = 6 of f32[6,6,3] times 1",
        "f32[4,5,9] f32[6,6,3]",
    ),
    _convolution(
        "of-features-that-do-not-divide",
        "the kernel's output features must be a multiple of the group count, got kernel dim 0"
        " = 5 of f32[5,3,3] and 2",
        "f32[4,6,9] f32[5,3,3]",
        by_feature=2,
    ),
    _convolution(
        "of-output-features-that-do-not-divide",
        "the kernel's output features must be a multiple of the group count, got kernel dim 0"
        " = 5 of f32[5,6,3] and 2",
        "f32[4,6,9] f32[5,6,3]",
        by_batch=2,
    ),
    _convolution(
        "of-a-batch-that-does-not-divide",
        "the input's batch must be a multiple of batch_group_count, got input dim 0 = 5 of "
        "f32[5,6,9] and 2",
        "f32[5,6,9] f32[6,6,3]",
        by_batch=2,
    ),
    _convolution(
        "of-different-types",
        "operands must have one element type, got lhs f32[4,6,9] and rhs s32[6,6,3]",
        "f32[4,6,9] s32[6,6,3]",
        off_wire=_TYPE_IS_SAID,
    ),
    _convolution(
        "in-a-narrower-integer",
        "the preferred element type must not be narrower than the operands, got s8 for lhs "
        "s32[4,6,9] and rhs s32[6,6,3]",
        "s32[4,6,9] s32[6,6,3]",
        preferred=ElementType.S8,
        declared="s8[4,6,7]",
    ),
)

CASES: tuple[Case, ...] = (*_DOTS, *_RAGGED_DOTS, *_SCALED_DOTS, *_CONVOLUTIONS)

"""Convolutions, from the simplest to the most general. Semantics: XLA's Conv*.

Each function writes one convolution. `lhs` is the input, `rhs` the kernel. Dimension numbers may be
text: "NHWC,HWIO->NHWC" or "b01f_01io->b01f".
"""

from collections.abc import Sequence

from xla_client.coercion.numbers import flags
from xla_client.coercion.records import (
    ConvolutionNumbers,
    Precision,
    convolution_numbers,
    precisions,
)
from xla_client.coercion.shapes import optional_type
from xla_client.programs.arguments.checked import checked, renamed
from xla_client.programs.arguments.windows import PaddingLike, amounts_of, make_window
from xla_client.programs.builder import Dimensions, Op, errors_at, integers
from xla_contract.ops.contraction.convolution import ConvolutionAttributes
from xla_contract.types.dimension_numbers import ConvolutionDimensionNumbers
from xla_contract.types.element_type import ElementTypeLike
from xla_contract.types.opcode import Opcode


@checked
def default_dimension_numbers(spatial: int) -> ConvolutionDimensionNumbers:
    """Batch (kernel: output) features, input features, then spatial dimensions: NCHW, OIHW."""
    positions = tuple(range(2, spatial + 2))
    return ConvolutionDimensionNumbers(
        input_batch_dimension=0,
        input_feature_dimension=1,
        input_spatial_dimensions=positions,
        kernel_input_feature_dimension=1,
        kernel_output_feature_dimension=0,
        kernel_spatial_dimensions=positions,
        output_batch_dimension=0,
        output_feature_dimension=1,
        output_spatial_dimensions=positions,
    )


@checked
def conv(
    lhs: Op,
    rhs: Op,
    window_strides: Dimensions,
    padding: PaddingLike,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Precision = None,
    preferred_element_type: ElementTypeLike | None = None,
) -> Op:
    """A convolution in XLA's default order of dimensions.

    The input has batch, features, then spatial dimensions (NCHW); the kernel has output features,
    input features, then spatial dimensions (OIHW); the output is like the input.

    Args:
        lhs: The input.
        rhs: The kernel.
        window_strides: The step of the window in each spatial dimension.
        padding: "same", "valid", or (low, high) per spatial dimension.
        feature_group_count: The number of groups that the input's features are divided into.
        batch_group_count: The number of groups that the batch is divided into.
        precision: "default", "high" or "highest", for both operands or one for each.
        preferred_element_type: The element type of the result, if it is not the
            operands'.

    Returns:
        The output.

    Raises:
        InvalidArgumentError: A text is no padding.

    Example:
        >>> b = Builder("example")
        >>> x, w = b.parameter(0, "f32[1,2,8]"), b.parameter(1, "f32[4,2,3]")
        >>> ops.conv(x, w, 1, "same")
        %convolution.3: f32[1,4,8]

    See https://openxla.org/xla/operation_semantics#conv_convolution
    """
    return conv_general(
        lhs,
        rhs,
        window_strides,
        padding,
        default_dimension_numbers(len(integers(window_strides))),
        feature_group_count,
        batch_group_count,
        precision,
        preferred_element_type,
    )


conv_with_general_padding = renamed(conv, "conv_with_general_padding")
"""`conv` under XlaBuilder's other name."""


@checked
def conv_general(
    lhs: Op,
    rhs: Op,
    window_strides: Dimensions,
    padding: PaddingLike,
    dimension_numbers: ConvolutionNumbers,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Precision = None,
    preferred_element_type: ElementTypeLike | None = None,
) -> Op:
    """A convolution with its dimensions in any order.

    Args:
        lhs: The input.
        rhs: The kernel.
        window_strides: The step of the window in each spatial dimension.
        padding: "same", "valid", or (low, high) per spatial dimension.
        dimension_numbers: The meaning of each dimension: ConvolutionDimensionNumbers, or text as
            "NHWC,HWIO->NHWC".
        feature_group_count: The number of groups that the input's features are divided into.
        batch_group_count: The number of groups that the batch is divided into.
        precision: "default", "high" or "highest", for both operands or one for each.
        preferred_element_type: The element type of the result, if it is not the
            operands'.

    Returns:
        The output.

    Raises:
        InvalidArgumentError: `padding` is no padding, or `dimension_numbers` no dimension numbers.

    Example:
        >>> b = Builder("example")
        >>> x, w = b.parameter(0, "f32[1,8,8,2]"), b.parameter(1, "f32[3,3,2,4]")
        >>> ops.conv_general(x, w, [2, 2], "same", "b01f_01io->b01f")
        %convolution.3: f32[1,4,4,4]

    See https://openxla.org/xla/operation_semantics#convwithgeneralpadding_convolution
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        None,
        None,
        dimension_numbers,
        feature_group_count,
        batch_group_count,
        precision,
        preferred_element_type,
    )


conv_with_general_dimensions = renamed(conv_general, "conv_with_general_dimensions")
"""`conv_general` under XlaBuilder's other name."""


@checked
def conv_general_dilated(
    lhs: Op,
    rhs: Op,
    window_strides: Dimensions,
    padding: PaddingLike,
    lhs_dilation: Dimensions | None,
    rhs_dilation: Dimensions | None,
    dimension_numbers: ConvolutionNumbers,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Precision = None,
    preferred_element_type: ElementTypeLike | None = None,
    window_reversal: bool | Sequence[bool] | None = None,
) -> Op:
    """A convolution with all parameters that there are.

    Args:
        lhs: The input.
        rhs: The kernel.
        window_strides: The step of the window in each spatial dimension.
        padding: "same", "valid", or (low, high) per spatial dimension.
        lhs_dilation: The distance of the input's elements in each spatial dimension; None for 1.
        rhs_dilation: The distance of the kernel's elements in each spatial dimension; None for 1.
        dimension_numbers: The meaning of each dimension: ConvolutionDimensionNumbers, or text as
            "NHWC,HWIO->NHWC".
        feature_group_count: The number of groups that the input's features are divided into.
        batch_group_count: The number of groups that the batch is divided into.
        precision: "default", "high" or "highest", for both operands or one for each.
        preferred_element_type: The element type of the result, if it is not the
            operands'.
        window_reversal: Whether to reverse the kernel in each spatial dimension; None for not.

    Returns:
        The output.

    Raises:
        InvalidArgumentError: `padding` is no padding, or `dimension_numbers` no dimension numbers.

    Example:
        >>> b = Builder("example")
        >>> x, w = b.parameter(0, "f32[1,8,8,2]"), b.parameter(1, "f32[3,3,2,4]")
        >>> ops.conv_general_dilated(x, w, [1, 1], "valid", None, [2, 2], "NHWC,HWIO->NHWC")
        %convolution.3: f32[1,4,4,4]

    See https://openxla.org/xla/operation_semantics#convwithgeneralpadding_convolution
    """
    strides = integers(window_strides)
    inner = None if lhs_dilation is None else integers(lhs_dilation)
    outer = None if rhs_dilation is None else integers(rhs_dilation)
    backwards = None if window_reversal is None else flags("window_reversal", window_reversal)
    numbers = convolution_numbers("dimension_numbers", dimension_numbers)
    with errors_at(Opcode.CONVOLUTION):
        base: list[int] = []
        if isinstance(padding, str):
            base = [lhs.shape.dimension(n) for n in numbers.input_spatial_dimensions]
        sizes = [rhs.shape.dimension(n) for n in numbers.kernel_spatial_dimensions]
        pairs = amounts_of(padding, base, sizes, strides, inner, outer)
        window = make_window(sizes, strides, pairs, inner, outer, backwards)
    attributes = ConvolutionAttributes(
        window,
        numbers,
        feature_group_count,
        batch_group_count,
        optional_type(preferred_element_type),
        precisions("precision", precision),
    )
    return lhs.builder.instruction(Opcode.CONVOLUTION, [lhs, rhs], attributes)

"""The gradients of convolutions without groups, each of them a convolution.

`padding`, `strides` and `rhs_dilation` are those of the convolution itself, per spatial dimension,
as `ops.conv_general_dilated` takes them. All raise ShapeError for operands that do not fit.
"""

from collections.abc import Sequence

from xla_client import ops
from xla_client.coercion.records import ConvolutionNumbers, convolution_numbers
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Dimensions, Op, integers
from xla_contract.errors import ShapeError
from xla_contract.types.dimension_numbers import ConvolutionDimensionNumbers
from xla_contract.types.shape import Shape


@checked
def conv_input_grad(
    gradient: Op,
    kernel: Op,
    input_dimensions: Dimensions,
    strides: Dimensions,
    padding: Sequence[tuple[int, int]],
    numbers: ConvolutionNumbers,
    rhs_dilation: Dimensions | None = None,
) -> Op:
    """The gradient of a convolution with respect to its input.

    It is a convolution of the result's gradient, dilated by the strides, with the reversed kernel.

    Args:
        gradient: The gradient with respect to the convolution's result.
        kernel: The kernel of the convolution.
        input_dimensions: The dimensions of the convolution's input.
        strides: The step of the window in each spatial dimension.
        padding: (low, high) in each spatial dimension.
        numbers: The dimension numbers of the convolution.
        rhs_dilation: The distance of the kernel's elements in each spatial dimension, by default 1.

    Returns:
        The gradient, of `input_dimensions`.

    Raises:
        ShapeError: The operands do not fit the convolution.
        InvalidArgumentError: `numbers` is no text of dimension numbers.

    Example:
        >>> b = Builder("example")
        >>> g, k = b.parameter(0, "f32[1,6,6,4]"), b.parameter(1, "f32[3,3,2,4]")
        >>> sizes, padding = [1, 8, 8, 2], [(0, 0), (0, 0)]
        >>> lib.convolution.conv_input_grad(g, k, sizes, [1, 1], padding, "NHWC,HWIO->NHWC")
        %convolution.3: f32[1,8,8,2]

    See https://openxla.org/xla/operation_semantics#convwithgeneralpadding_convolution
    """
    input_dimensions = integers(input_dimensions)
    strides = integers(strides)
    numbers = convolution_numbers("numbers", numbers)
    rhs_dilation = None if rhs_dilation is None else integers(rhs_dilation)
    dilation = _ones_if_none(rhs_dilation, strides)
    _check_lengths("conv_input_grad", numbers, strides, padding, dilation)
    pairs = []
    for number, (low, _) in enumerate(padding):
        size, reach, spread = _extents(
            Shape.array(kernel.shape.element_type, input_dimensions),
            kernel.shape,
            gradient.shape,
            numbers,
            number,
            strides[number],
            dilation[number],
        )
        before = reach - 1 - low
        pairs.append((before, size + reach - 1 - spread - before))
    turned = ConvolutionDimensionNumbers(
        input_batch_dimension=numbers.output_batch_dimension,
        input_feature_dimension=numbers.output_feature_dimension,
        input_spatial_dimensions=numbers.output_spatial_dimensions,
        kernel_input_feature_dimension=numbers.kernel_output_feature_dimension,
        kernel_output_feature_dimension=numbers.kernel_input_feature_dimension,
        kernel_spatial_dimensions=numbers.kernel_spatial_dimensions,
        output_batch_dimension=numbers.input_batch_dimension,
        output_feature_dimension=numbers.input_feature_dimension,
        output_spatial_dimensions=numbers.input_spatial_dimensions,
    )
    return ops.conv_general_dilated(
        gradient,
        kernel,
        [1] * len(pairs),
        pairs,
        strides,
        dilation,
        turned,
        window_reversal=[True] * len(pairs),
    )


@checked
def conv_kernel_grad(
    operand: Op,
    gradient: Op,
    kernel_dimensions: Dimensions,
    strides: Dimensions,
    padding: Sequence[tuple[int, int]],
    numbers: ConvolutionNumbers,
    rhs_dilation: Dimensions | None = None,
) -> Op:
    """The gradient of a convolution with respect to its kernel.

    It is a convolution of the input with the result's gradient, over the batch and in steps of the
    strides.

    Args:
        operand: The input of the convolution.
        gradient: The gradient with respect to the convolution's result.
        kernel_dimensions: The dimensions of the convolution's kernel.
        strides: The step of the window in each spatial dimension.
        padding: (low, high) in each spatial dimension.
        numbers: The dimension numbers of the convolution.
        rhs_dilation: The distance of the kernel's elements in each spatial dimension, by default 1.

    Returns:
        The gradient, of `kernel_dimensions`.

    Raises:
        ShapeError: The operands do not fit the convolution.
        InvalidArgumentError: `numbers` is no text of dimension numbers.

    Example:
        >>> b = Builder("example")
        >>> x, g = b.parameter(0, "f32[1,8,8,2]"), b.parameter(1, "f32[1,6,6,4]")
        >>> sizes, padding = [3, 3, 2, 4], [(0, 0), (0, 0)]
        >>> lib.convolution.conv_kernel_grad(x, g, sizes, [1, 1], padding, "NHWC,HWIO->NHWC")
        %convolution.3: f32[3,3,2,4]

    See https://openxla.org/xla/operation_semantics#convwithgeneralpadding_convolution
    """
    kernel_dimensions = integers(kernel_dimensions)
    strides = integers(strides)
    numbers = convolution_numbers("numbers", numbers)
    rhs_dilation = None if rhs_dilation is None else integers(rhs_dilation)
    dilation = _ones_if_none(rhs_dilation, strides)
    _check_lengths("conv_kernel_grad", numbers, strides, padding, dilation)
    kernel = Shape.array(operand.shape.element_type, kernel_dimensions)
    pairs = []
    for number, (low, _) in enumerate(padding):
        size, reach, spread = _extents(
            operand.shape,
            kernel,
            gradient.shape,
            numbers,
            number,
            strides[number],
            dilation[number],
        )
        pairs.append((low, reach - 1 + spread - size - low))
    turned = ConvolutionDimensionNumbers(
        input_batch_dimension=numbers.input_feature_dimension,
        input_feature_dimension=numbers.input_batch_dimension,
        input_spatial_dimensions=numbers.input_spatial_dimensions,
        kernel_input_feature_dimension=numbers.output_batch_dimension,
        kernel_output_feature_dimension=numbers.output_feature_dimension,
        kernel_spatial_dimensions=numbers.output_spatial_dimensions,
        output_batch_dimension=numbers.kernel_input_feature_dimension,
        output_feature_dimension=numbers.kernel_output_feature_dimension,
        output_spatial_dimensions=numbers.kernel_spatial_dimensions,
    )
    return ops.conv_general_dilated(operand, gradient, dilation, pairs, None, strides, turned)


def _ones_if_none(dilation: Sequence[int] | None, strides: Sequence[int]) -> Sequence[int]:
    return [1] * len(strides) if dilation is None else dilation


def _check_lengths(
    function: str,
    numbers: ConvolutionDimensionNumbers,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
) -> None:
    count = len(numbers.kernel_spatial_dimensions)
    if {len(strides), len(padding), len(dilation)} != {count}:
        raise ShapeError(
            "strides, padding and rhs_dilation must have one entry per spatial dimension, got "
            f"{len(strides)}, {len(padding)} and {len(dilation)} for {count}"
        ).at(function)


def _extents(
    operand: Shape,
    kernel: Shape,
    gradient: Shape,
    numbers: ConvolutionDimensionNumbers,
    number: int,
    stride: int,
    dilation: int,
) -> tuple[int, int, int]:
    """Return sizes along a spatial dimension: the input, the dilated kernel, all windows."""
    taps = kernel.dimension(numbers.kernel_spatial_dimensions[number])
    windows = gradient.dimension(numbers.output_spatial_dimensions[number])
    size = operand.dimension(numbers.input_spatial_dimensions[number])
    return size, (taps - 1) * dilation + 1, (windows - 1) * stride + 1

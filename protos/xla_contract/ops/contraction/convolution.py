"""convolution: a kernel slid over the spatial dimensions of a batch of feature maps.

Semantics: XLA's ConvGeneralDilated, with feature and batch groups. The kernel is not flipped
unless the window states window_reversal.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Record, Scalar, Special
from xla_contract.ops.contraction.precision import (
    Algorithm,
    OperandPrecision,
    PreferredType,
    product_type,
)
from xla_contract.ops.signature import require_array
from xla_contract.types.dimension_numbers import ConvolutionDimensionNumbers, Window
from xla_contract.types.shape import Shape


def _count_of_groups(name: str) -> Special:
    """A count of groups; writers from before groups existed leave it 0."""
    count = Scalar(name)
    return Special(lambda proto, shape: count.read(proto, shape) or 1, count.write)


@dataclasses.dataclass(frozen=True, slots=True)
class ConvolutionAttributes:
    """`preferred_element_type` None means the operands' type; read from a message it is set."""

    window: Annotated[Window, Record("window", Window)]
    dimension_numbers: Annotated[
        ConvolutionDimensionNumbers,
        Record("convolution_dimension_numbers", ConvolutionDimensionNumbers),
    ]
    feature_group_count: Annotated[int, _count_of_groups("feature_group_count")] = 1
    batch_group_count: Annotated[int, _count_of_groups("batch_group_count")] = 1
    preferred_element_type: PreferredType = None
    precision: OperandPrecision = ()
    algorithm: Algorithm = 0


def infer_convolution(operands: Sequence[Shape], attributes: ConvolutionAttributes) -> Shape:
    """The shape of input convolved with kernel; ShapeError when anything does not fit."""
    base, kernel = (require_array(shape, "an operand") for shape in operands)
    numbers, window = attributes.dimension_numbers, attributes.window
    spatial = len(window.dimensions)
    for name, order, shape in (
        ("input", numbers.input_order, base),
        ("kernel", numbers.kernel_order, kernel),
        ("output", numbers.output_order, None),
    ):
        if sorted(order) != list(range(spatial + 2)) or (shape and shape.rank != spatial + 2):
            raise ShapeError(
                f"the {name} dimension numbers must name each of {spatial} spatial dimensions "
                f"and two more once, got {{{','.join(map(str, order))}}} for {shape or window}"
            )
    sizes = tuple(kernel.dimensions[number] for number in numbers.kernel_spatial_dimensions)
    if sizes != tuple(dimension.size for dimension in window.dimensions):
        raise ShapeError(
            f"the window must have the kernel's spatial sizes, got {window} and {kernel} with "
            f"dimension numbers {numbers}"
        )
    batch, features = _check_groups(base, kernel, attributes)
    spatial_sizes = window.output_sizes(
        [base.dimensions[n] for n in numbers.input_spatial_dimensions]
    )
    dimensions = [0] * (spatial + 2)
    for number, size in zip(numbers.output_order, (batch, features, *spatial_sizes), strict=True):
        dimensions[number] = size
    flags = [False] * (spatial + 2)
    for number, source in zip(numbers.output_order, numbers.input_order, strict=True):
        flags[number] = base.is_dynamic(source)
    flags[numbers.output_feature_dimension] = kernel.is_dynamic(
        numbers.kernel_output_feature_dimension
    )
    element_type = product_type(base, kernel, attributes.preferred_element_type)
    return Shape.array(element_type, dimensions, None, flags)


def _check_groups(base: Shape, kernel: Shape, attributes: ConvolutionAttributes) -> tuple[int, int]:
    numbers = attributes.dimension_numbers
    by_feature, by_batch = attributes.feature_group_count, attributes.batch_group_count
    if by_feature < 1 or by_batch < 1 or (by_feature > 1 and by_batch > 1):
        raise ShapeError(
            "group counts must be positive and at most one of them above 1, got "
            f"feature_group_count={by_feature} and batch_group_count={by_batch}"
        )
    batch = base.dimensions[numbers.input_batch_dimension]
    in_features = base.dimensions[numbers.input_feature_dimension]
    per_group = kernel.dimensions[numbers.kernel_input_feature_dimension]
    out_features = kernel.dimensions[numbers.kernel_output_feature_dimension]
    if in_features != per_group * by_feature:
        raise ShapeError(
            "the input's features must be the kernel's input features times "
            f"feature_group_count, got input dim {numbers.input_feature_dimension} = "
            f"{in_features} of {base} and kernel dim {numbers.kernel_input_feature_dimension} = "
            f"{per_group} of {kernel} times {by_feature}"
        )
    if out_features % by_feature or out_features % by_batch:
        raise ShapeError(
            "the kernel's output features must be a multiple of the group count, got kernel dim "
            f"{numbers.kernel_output_feature_dimension} = {out_features} of {kernel} and "
            f"{max(by_feature, by_batch)}"
        )
    if batch % by_batch:
        raise ShapeError(
            "the input's batch must be a multiple of batch_group_count, got input dim "
            f"{numbers.input_batch_dimension} = {batch} of {base} and {by_batch}"
        )
    return batch // by_batch, out_features

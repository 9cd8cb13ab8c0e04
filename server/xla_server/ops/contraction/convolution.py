"""The evaluator of convolution: im2col, then one matrix product per group.

Gaps of a dilated input become zeros, padding too; negative padding cuts off. The windows of the
padded input are a strided view, which one copy turns into the matrix. Gaps and padding take no part
in sums. If a weight is not finite, its product with zero is not zero: then sums are made window
element by window element, over the positions at which it meets the input. So are they where gaps
and padding are more than memory could hold.

Sums begin with +0, so that sums of zeros are +0, whatever their signs. But a convolution with a
window of one element without strides, padding and base dilation is a dot: there a sum of one
product is that product, -0 too.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from xla_contract.ops.contraction.convolution import ConvolutionAttributes
from xla_contract.types.dimension_numbers import PaddingDimension, Window
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.numerics.products import compute_type, matrix_product, to_result
from xla_server.ops.numerics.scalar_function import round_to
from xla_server.ops.numerics.windows import reads
from xla_server.ops.shaping.pad import padded

_IM2COL_BYTES = 2**26
"""About how much the patch matrix may take at once; the batch is cut in pieces to keep to it."""

_MAX_PADDED_ELEMENTS = 2**30
"""Spatial positions of an input with its gaps and padding, beyond which these are left out."""


def evaluate_convolution(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """Sums of products in at least f32, converted once to the result type; integers wrap."""
    attributes: ConvolutionAttributes = instruction.attributes
    numbers = attributes.dimension_numbers
    result = instruction.shape.element_type
    base = cast(Array, operands[0]).transpose(numbers.input_order)
    kernel = cast(Array, operands[1]).transpose(numbers.kernel_order)
    types = (*(operand.shape.element_type for operand in instruction.operands), result)
    wide = compute_type(types, math.prod(kernel.shape[2:]) * kernel.shape[0])
    reversed_dims = tuple(
        number + 2 for number, d in enumerate(attributes.window.dimensions) if d.window_reversal
    )
    kernel = np.flip(round_to(kernel, wide), reversed_dims)
    sizes = tuple(instruction.shape.dimensions[number] for number in numbers.output_order)
    spatial = sizes[2:]
    output = np.zeros(sizes, result.dtype)
    groups = attributes.feature_group_count * attributes.batch_group_count
    if not (output.size and base.size and kernel.size):
        return output.transpose(np.argsort(numbers.output_order))
    # A group is (group, its batch, its features, spatial ...), whichever dimension it is cut from.
    if attributes.batch_group_count > 1:
        grouped = base.reshape(groups, -1, *base.shape[1:])
    else:
        split = base.reshape(base.shape[0], groups, kernel.shape[0], *base.shape[2:])
        grouped = np.moveaxis(split, 1, 0)
    weights = kernel.reshape(kernel.shape[0], groups, -1, *kernel.shape[2:])
    columns = weights.shape[2]
    depth = kernel.shape[0] * math.prod(kernel.shape[2:])
    matrix = np.moveaxis(weights, (1, 2), (0, -1)).reshape(groups, depth, columns)
    is_dot = attributes.window.is_pointwise
    sizes_of_input = zip(attributes.window.dimensions, base.shape[2:], strict=True)
    positions = math.prod(d.padded_size(size) for d, size in sizes_of_input)
    is_finite = positions <= _MAX_PADDED_ELEMENTS and bool(np.isfinite(matrix).all())
    is_dense = is_dot or is_finite
    per_item = max(1, groups * depth * math.prod(spatial) * wide.itemsize)
    step = max(1, _IM2COL_BYTES // per_item)
    for start in range(0, sizes[0], step):
        frame.check_cancelled()
        piece = round_to(grouped[:, start : start + step], wide)
        if is_dense:
            rows = _patches(piece, attributes.window)
            product = matrix_product(rows.reshape(groups, -1, depth), matrix)
            if depth > 1 or not is_dot:
                product = np.add(product, product.dtype.type(0))
        else:
            product = _sums(piece, weights, attributes.window, spatial)
        shaped = product.reshape(groups, piece.shape[1], *spatial, columns)
        merged = np.moveaxis(shaped, (0, -1), (1, 2)).reshape(
            piece.shape[1], groups * columns, *spatial
        )
        output[start : start + step] = to_result(merged, types)
    return output.transpose(np.argsort(numbers.output_order))


def _sums(
    grouped: Array,
    weights: Array,
    window: Window,
    spatial: tuple[int, ...],
) -> Array:
    """Sums (group, batch, output positions ..., column) over the input's own elements.

    `weights` are (feature, group, column, window elements ...), turned round where it is reversed.
    """
    groups, batch = grouped.shape[:2]
    every = slice(None)
    total = np.zeros((groups, batch, *spatial, weights.shape[2]), grouped.dtype)
    for number, element in enumerate(np.ndindex(*weights.shape[3:])):
        # The same window where all other elements are left out.
        single = Window(
            tuple(
                dataclasses.replace(d, size=1, padding_low=d.padding_low - at * d.window_dilation)
                for d, at in zip(window.dimensions, element, strict=True)
            )
        )
        of_element = np.moveaxis(weights.reshape(*weights.shape[:3], -1)[..., number], 1, 0)
        for at_outputs, at_base in reads(single, grouped.shape[3:], spatial):
            rows = np.moveaxis(grouped[(every, every, every, *at_base)], 2, -1)
            product = matrix_product(rows.reshape(groups, -1, rows.shape[-1]), of_element)
            total[(every, every, *at_outputs)] += product.reshape(*rows.shape[:-1], -1)
    return total


def _patches(grouped: Array, window: Window) -> Array:
    """View (group, batch, output positions ..., feature, window elements ...) of the input."""
    spatial = tuple(range(3, grouped.ndim))
    extents = [d.dilated_size for d in window.dimensions]
    padded = _pad(grouped, window)
    windows = np.lib.stride_tricks.sliding_window_view(padded, extents, spatial)
    positions = [slice(None, None, d.stride) for d in window.dimensions]
    elements = [slice(None, None, d.window_dilation) for d in window.dimensions]
    box: tuple[Any, ...] = (..., *positions, *elements)
    return np.moveaxis(windows[box], 2, grouped.ndim - 1)


def _pad(grouped: Array, window: Window) -> Array:
    """The input with gaps and padding of zeros, and without what negative padding cuts off."""
    paddings = [
        PaddingDimension(d.padding_low, d.padding_high, d.base_dilation - 1)
        for d in window.dimensions
    ]
    if all(padding == PaddingDimension() for padding in paddings):
        return grouped
    return padded(grouped, 0, [PaddingDimension()] * 3 + paddings)

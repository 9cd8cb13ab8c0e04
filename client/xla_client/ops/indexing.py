"""Reading and writing slices at computed indices. Semantics: XLA's Gather and Scatter."""

from xla_client.programs.builder import (
    Dimensions,
    Op,
    Operands,
    as_sequence,
    builder_of,
    integers,
    placed,
)
from xla_client.programs.checked import checked
from xla_client.programs.functions import scalar_computation
from xla_client.programs.operands import ComputationLike
from xla_contract.ops.indexing.gather import GatherAttributes
from xla_contract.ops.indexing.scatter import ScatterAttributes
from xla_contract.types.dimension_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from xla_contract.types.opcode import Opcode


@checked
def gather(
    operand: Op,
    start_indices: Op,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Dimensions,
    indices_are_sorted: bool = False,
) -> Op:
    """Slices of the operand that start at the index vectors.

    Args:
        operand: An array.
        start_indices: Index vectors, integers, along one dimension.
        dimension_numbers: A GatherDimensionNumbers.
        slice_sizes: The size of a slice in each dimension.
        indices_are_sorted: Whether the caller knows that the indices are in order.

    Returns:
        The slices, with the dimensions of the indices among theirs.

    Example:
        >>> b = Builder("example")
        >>> x, n = b.parameter(0, "f32[5,3]"), b.parameter(1, "s32[2]")
        >>> numbers = xla_client.GatherDimensionNumbers((1,), (0,), (0,), 1)
        >>> ops.gather(x, n, numbers, [1, 3])
        %gather.3: f32[2,3]

    See https://openxla.org/xla/operation_semantics#gather
    """
    attributes = GatherAttributes(dimension_numbers, integers(slice_sizes), indices_are_sorted)
    return operand.builder.instruction(Opcode.GATHER, [operand, start_indices], attributes)


@checked
def scatter(
    operands: Operands,
    scatter_indices: Op,
    updates: Operands,
    update_computation: ComputationLike,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Op:
    """The operand with updates combined into it at the index vectors.

    Several operands with one update each give a tuple; the computation then takes the current
    elements of all operands and the updates of all.

    Args:
        operands: An Op, or several in a sequence.
        scatter_indices: Index vectors, integers, along one dimension.
        updates: One array for each operand.
        update_computation: A function of the current element and the update.
        dimension_numbers: A ScatterDimensionNumbers.
        indices_are_sorted: Whether the caller knows that the indices are in order.
        unique_indices: Whether the caller knows that no index comes twice.

    Returns:
        The updated operand, or a tuple of them.

    Example:
        >>> b = Builder("example")
        >>> x, n = b.parameter(0, "f32[5]"), b.parameter(1, "s32[2]")
        >>> y = b.parameter(2, "f32[2]")
        >>> numbers = xla_client.ScatterDimensionNumbers((), (0,), (0,), 1)
        >>> ops.scatter(x, n, y, lambda old, new: old + new, numbers)
        %scatter.4: f32[5]

    See https://openxla.org/xla/operation_semantics#scatter
    """
    inputs, sources = as_sequence(operands), as_sequence(updates)
    attributes = ScatterAttributes(dimension_numbers, indices_are_sorted, unique_indices)
    everything = [*inputs, scatter_indices, *sources]
    builder = builder_of(*everything)
    with placed(Opcode.SCATTER):
        shapes = [each.shape for each in (*inputs, *sources)]
        combined = scalar_computation(update_computation, builder, shapes, "update_computation")
    return builder.instruction(Opcode.SCATTER, everything, attributes, [combined])

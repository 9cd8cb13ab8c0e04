"""Reading and writing slices at computed indices. Semantics: XLA's Gather and Scatter."""

from xla_client.programs.arguments.checked import checked
from xla_client.programs.arguments.operands import ComputationLike
from xla_client.programs.builder import (
    Dimensions,
    Op,
    Operands,
    as_sequence,
    builder_of,
    errors_at,
    integers,
)
from xla_client.programs.functions import scalar_computation
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
    """Slices of the operand, one for each index vector.

    A slice that would reach outside of the operand is moved inside.

    Args:
        operand: An array.
        start_indices: Index vectors, integers, along the dimension `index_vector_dim`.
        dimension_numbers: A GatherDimensionNumbers.
        slice_sizes: The size of a slice in each dimension of the operand.
        indices_are_sorted: Whether the caller promises that the index vectors ascend.

    Returns:
        The slices: the dimensions `offset_dims` are those of a slice, the others those of
            `start_indices` without the index vectors.

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
    """The operand with slices of updates combined into it, one for each index vector.

    Updates outside of the operand are left out. The order of several updates of one element is
    not defined.

    Args:
        operands: An array, or several in a sequence.
        scatter_indices: Index vectors, integers, along the dimension `index_vector_dim`.
        updates: An array of slices for each operand.
        update_computation: A function of the current element and the update; for several operands
            of the current elements of all, then the updates of all.
        dimension_numbers: A ScatterDimensionNumbers.
        indices_are_sorted: Whether the caller promises that the index vectors ascend.
        unique_indices: Whether the caller promises that no element is updated twice.

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
    with errors_at(Opcode.SCATTER):
        shapes = [each.shape for each in (*inputs, *sources)]
        combined = scalar_computation(update_computation, builder, shapes, "update_computation")
    return builder.instruction(Opcode.SCATTER, everything, attributes, [combined])

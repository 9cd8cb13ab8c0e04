"""Reading and writing slices at computed places. Semantics: XLA's Gather and Scatter."""

from collections.abc import Sequence

from xla_client.builder import Op, as_sequence, builder_of, integers
from xla_client.computation import Computation
from xla_contract.dimension_numbers import GatherDimensionNumbers, ScatterDimensionNumbers
from xla_contract.opcode import Opcode
from xla_contract.ops.gather import GatherAttributes
from xla_contract.ops.scatter import ScatterAttributes


def gather(
    operand: Op,
    start_indices: Op,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    indices_are_sorted: bool = False,
) -> Op:
    """Slices of the operand that start where the index vectors say."""
    attributes = GatherAttributes(dimension_numbers, integers(slice_sizes), indices_are_sorted)
    return operand.builder.instruction(Opcode.GATHER, [operand, start_indices], attributes)


def scatter(
    operands: Op | Sequence[Op],
    scatter_indices: Op,
    updates: Op | Sequence[Op],
    update_computation: Computation,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Op:
    """The operand with updates combined into it where the index vectors say.

    Several operands with one update each give a tuple; the computation then takes the current
    elements of all operands and the updates of all.
    """
    inputs, sources = as_sequence(operands), as_sequence(updates)
    attributes = ScatterAttributes(dimension_numbers, indices_are_sorted, unique_indices)
    everything = [*inputs, scatter_indices, *sources]
    builder = builder_of(*everything)
    return builder.instruction(Opcode.SCATTER, everything, attributes, [update_computation])

"""The evaluator of gather: an index array for each operand dimension, then one indexed read."""

import numpy as np

from xla_contract.ops.indexing.gather import GatherAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands
from xla_server.ops.numerics.indices import Indices, batching_index, index_vectors, spread


@of_operands
def evaluate_gather(instruction: HloInstruction, operand: Array, indices: Array) -> Array:
    """Slices at the start indices, which are clamped so that each slice lies inside.

    A collapsed dimension may have slices of size 0, which have no element: XLA then gives zeros.
    """
    attributes: GatherAttributes = instruction.attributes
    numbers, sizes = attributes.dimension_numbers, attributes.slice_sizes
    if 0 in sizes or not instruction.shape.element_count:
        return np.zeros(instruction.shape.dimensions, operand.dtype)
    rank = instruction.shape.rank
    batch_dims = tuple(n for n in range(rank) if n not in numbers.offset_dims)
    vectors = index_vectors(indices, numbers.index_vector_dim)
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    offset_dims = iter(numbers.offset_dims)
    position: list[Indices] = []
    for dimension, size in enumerate(sizes):
        part = np.zeros((1,) * rank, np.int64)
        if dimension in numbers.start_index_map:
            entry = vectors[..., numbers.start_index_map.index(dimension)]
            starts = np.clip(entry, 0, operand.shape[dimension] - size)
            part = part + spread(starts, batch_dims, rank)
        elif dimension in numbers.operand_batching_dims:
            pair = numbers.operand_batching_dims.index(dimension)
            of_indices = numbers.start_indices_batching_dims[pair]
            part = part + batching_index(
                of_indices, numbers.index_vector_dim, operand.shape[dimension], batch_dims, rank
            )
        if dimension not in dropped:
            part = part + spread(np.arange(size), (next(offset_dims),), rank)
        position.append(part)
    return np.broadcast_to(operand[tuple(position)], instruction.shape.dimensions)

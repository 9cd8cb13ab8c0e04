"""The evaluator of scatter: the flat position of each update element, then one combination."""

from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_contract.ops.indexing.scatter import ScatterAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.numerics.combining import combine_at
from xla_server.ops.numerics.indices import Indices, Mask, batching_index, index_vectors, spread
from xla_server.ops.numerics.scalar_function import one_or_tuple


def evaluate_scatter(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Combine updates in the order of their elements; windows that do not fit are skipped."""
    attributes: ScatterAttributes = instruction.attributes
    (combiner,) = instruction.called
    count = len(operands) // 2
    inputs = [cast(Array, operand) for operand in operands[:count]]
    updates = [cast(Array, operand) for operand in operands[count + 1 :]]
    shape = inputs[0].shape
    if not updates[0].size or not inputs[0].size:
        return one_or_tuple(inputs)
    positions, inside = _positions(attributes, shape, cast(Array, operands[count]), updates[0])
    chosen = inside.reshape(-1)
    results = combine_at(
        combiner,
        [array.reshape(-1) for array in inputs],
        positions.reshape(-1)[chosen],
        [array.reshape(-1)[chosen] for array in updates],
        frame,
    )
    return one_or_tuple([result.reshape(shape) for result in results])


def _positions(
    attributes: ScatterAttributes, shape: tuple[int, ...], indices: Array, update: Array
) -> tuple[Indices, Mask]:
    """The flat input position of each update element, and whether its window lies inside."""
    numbers = attributes.dimension_numbers
    rank = update.ndim
    batch_dims = tuple(n for n in range(rank) if n not in numbers.update_window_dims)
    vectors = index_vectors(indices, numbers.index_vector_dim)
    dropped = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    window_dims = iter(numbers.update_window_dims)
    flat = np.zeros((1,) * rank, np.int64)
    inside = np.ones((1,) * rank, np.bool_)
    for dimension, size in enumerate(shape):
        flat = flat * size
        extent = 1
        if dimension not in dropped:
            window_dim = next(window_dims)
            extent = update.shape[window_dim]
            flat = flat + spread(np.arange(extent), (window_dim,), rank)
        if dimension in numbers.scatter_dims_to_operand_dims:
            entry = vectors[..., numbers.scatter_dims_to_operand_dims.index(dimension)]
            starts = spread(entry, batch_dims, rank)
            fits = (starts >= 0) & (starts <= size - extent)
            inside = inside & fits
            flat = flat + np.where(fits, starts, 0)
        elif dimension in numbers.input_batching_dims:
            pair = numbers.input_batching_dims.index(dimension)
            of_indices = numbers.scatter_indices_batching_dims[pair]
            flat = flat + batching_index(
                of_indices, numbers.index_vector_dim, size, batch_dims, rank
            )
    return np.broadcast_to(flat, update.shape), np.broadcast_to(inside, update.shape)

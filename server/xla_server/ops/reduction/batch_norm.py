"""The evaluators of the batch-norm operations, in f64 and rounded once.

With n = 1 / sqrt(variance + epsilon), a feature is normalised to (x - mean) * n * scale + offset.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from xla_contract.ops.reduction.batch_norm import BatchNormAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Value, of_operands
from xla_server.ops.numerics.scalar_function import round_to

Wide = NDArray[np.float64]


@of_operands
def evaluate_batch_norm_training(instruction: HloInstruction, *operands: Array) -> Value:
    """(normalised, mean, variance), the variance being that of the whole batch."""
    (operand, scale, offset), others = _prepare(instruction, operands)
    mean = operand.mean(others, keepdims=True)
    variance = np.square(operand - mean).mean(others, keepdims=True)
    normalised = (operand - mean) * _inverse(instruction, variance) * scale + offset
    return _round(instruction, (normalised, mean, variance))


@of_operands
def evaluate_batch_norm_inference(instruction: HloInstruction, *operands: Array) -> Array:
    """The operand normalised with a given mean and variance."""
    (operand, scale, offset, mean, variance), _ = _prepare(instruction, operands)
    normalised = (operand - mean) * _inverse(instruction, variance) * scale + offset
    return round_to(normalised, instruction.shape.element_type.dtype)


@of_operands
def evaluate_batch_norm_grad(instruction: HloInstruction, *operands: Array) -> Value:
    """Gradients of training with respect to (operand, scale, offset)."""
    (operand, scale, mean, variance, gradient), others = _prepare(instruction, operands)
    inverse = _inverse(instruction, variance)
    centred = (operand - mean) * inverse
    of_scale = (gradient * centred).sum(others, keepdims=True)
    of_offset = gradient.sum(others, keepdims=True)
    count = max(1, operand.size // max(1, of_offset.size))
    of_operand = scale * inverse * (gradient - (of_offset + centred * of_scale) / count)
    return _round(instruction, (of_operand, of_scale, of_offset))


def _prepare(
    instruction: HloInstruction, operands: Sequence[Array]
) -> tuple[list[Wide], tuple[int, ...]]:
    """Operands in f64, vectors along the feature dimension; and all other dimensions."""
    attributes: BatchNormAttributes = instruction.attributes
    arrays = [operand.astype(np.float64) for operand in operands]
    rank, feature = arrays[0].ndim, attributes.feature_index
    along = [1] * rank
    along[feature] = arrays[0].shape[feature]
    wide = [a if a.shape == arrays[0].shape else a.reshape(along) for a in arrays]
    return wide, tuple(n for n in range(rank) if n != feature)


def _inverse(instruction: HloInstruction, variance: Wide) -> Wide:
    attributes: BatchNormAttributes = instruction.attributes
    return 1 / np.sqrt(variance + attributes.epsilon)


def _round(instruction: HloInstruction, parts: Sequence[Wide]) -> Value:
    shapes = instruction.shape.tuple_shapes
    return tuple(
        round_to(part.reshape(shape.dimensions), shape.element_type.dtype)
        for part, shape in zip(parts, shapes, strict=True)
    )

"""batch-norm-training, -inference, -grad: normalisation over all dimensions but one.

Semantics: XLA's BatchNormTraining, BatchNormInference and BatchNormGrad.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Scalar
from xla_contract.ops.signature import listed, require_array
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class BatchNormAttributes:
    """Epsilon, which is added to the variance, and the feature dimension."""

    epsilon: Annotated[float, Scalar("epsilon")]
    feature_index: Annotated[int, Scalar("feature_index")]


def infer_batch_norm_training(operands: Sequence[Shape], attributes: BatchNormAttributes) -> Shape:
    """(normalised, batch mean, batch variance) from (operand, scale, offset)."""
    operand = operands[0].without_layout()
    feature = _feature_shape(operands, attributes, operands[1:])
    return Shape.tuple_of([operand, feature, feature])


def infer_batch_norm_inference(operands: Sequence[Shape], attributes: BatchNormAttributes) -> Shape:
    """The normalised operand from (operand, scale, offset, mean, variance)."""
    _feature_shape(operands, attributes, operands[1:])
    return operands[0].without_layout()


def infer_batch_norm_grad(operands: Sequence[Shape], attributes: BatchNormAttributes) -> Shape:
    """Gradients (operand, scale, offset) from (operand, scale, mean, variance, grad_output)."""
    operand, gradient = operands[0].without_layout(), operands[4]
    feature = _feature_shape(operands, attributes, operands[1:4])
    if not gradient.compatible(operand):
        raise ShapeError(f"grad_output must have the operand's shape, got {gradient} and {operand}")
    return Shape.tuple_of([operand, feature, feature])


def _feature_shape(
    operands: Sequence[Shape], attributes: BatchNormAttributes, vectors: Sequence[Shape]
) -> Shape:
    operand = require_array(operands[0], "the operand")
    if not 0 <= attributes.feature_index < operand.rank:
        raise ShapeError(
            f"feature_index must be in range [0, {operand.rank}), got "
            f"{attributes.feature_index} for {operand}"
        )
    if not operand.element_type.is_floating:
        raise ShapeError(f"the operand must be of floating type, got {operand}")
    feature = operand.with_dimensions([operand.dimensions[attributes.feature_index]])
    if not all(vector.compatible(feature) for vector in vectors):
        raise ShapeError(
            f"scale, offset, mean and variance must be {feature} for feature dimension "
            f"{attributes.feature_index} of {operand}, got {listed(vectors)}"
        )
    return feature

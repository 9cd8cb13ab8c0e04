"""Batch normalisation. Semantics: XLA's BatchNormTraining, -Inference and -Grad."""

from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Op
from xla_contract.ops.reduction.batch_norm import BatchNormAttributes
from xla_contract.types.opcode import Opcode


@checked
def batch_norm_training(
    operand: Op, scale: Op, offset: Op, epsilon: float, feature_index: int
) -> Op:
    """The operand normalised over the batch, with the mean and the variance of each feature.

    Args:
        operand: An array of a floating type.
        scale: A vector: the factor of each feature.
        offset: A vector: the number that is added to each feature.
        epsilon: A Python number that is added to the variance.
        feature_index: The dimension of the features.

    Returns:
        A tuple: the normalised operand, mean and variance.

    Example:
        >>> b = Builder("example")
        >>> x, v = b.parameter(0, "f32[4,2]"), b.parameter(1, "f32[2]")
        >>> ops.batch_norm_training(x, v, v, 1e-5, 1)
        %batch-norm-training.3: (f32[4,2], f32[2], f32[2])

    See https://openxla.org/xla/operation_semantics#batchnormtraining
    """
    attributes = BatchNormAttributes(epsilon, feature_index)
    operands = [operand, scale, offset]
    return operand.builder.instruction(Opcode.BATCH_NORM_TRAINING, operands, attributes)


@checked
def batch_norm_inference(
    operand: Op,
    scale: Op,
    offset: Op,
    mean: Op,
    variance: Op,
    epsilon: float,
    feature_index: int,
) -> Op:
    """The operand normalised by a given mean and variance.

    Args:
        operand: An array of a floating type.
        scale: A vector: the factor of each feature.
        offset: A vector: the number that is added to each feature.
        mean: The mean of each feature.
        variance: The variance of each feature.
        epsilon: A Python number that is added to the variance.
        feature_index: The dimension of the features.

    Returns:
        The normalised operand.

    Example:
        >>> b = Builder("example")
        >>> x, v = b.parameter(0, "f32[4,2]"), b.parameter(1, "f32[2]")
        >>> ops.batch_norm_inference(x, v, v, v, v, 1e-5, 1)
        %batch-norm-inference.3: f32[4,2]

    See https://openxla.org/xla/operation_semantics#batchnorminference
    """
    attributes = BatchNormAttributes(epsilon, feature_index)
    operands = [operand, scale, offset, mean, variance]
    return operand.builder.instruction(Opcode.BATCH_NORM_INFERENCE, operands, attributes)


@checked
def batch_norm_grad(
    operand: Op,
    scale: Op,
    batch_mean: Op,
    batch_var: Op,
    grad_output: Op,
    epsilon: float,
    feature_index: int,
) -> Op:
    """The gradients of `batch_norm_training`.

    Args:
        operand: An array of a floating type.
        scale: A vector: the factor of each feature.
        batch_mean: The mean of each feature over the batch.
        batch_var: The variance of each feature over the batch.
        grad_output: The gradient with respect to the normalised operand, of its shape.
        epsilon: A Python number that is added to the variance.
        feature_index: The dimension of the features.

    Returns:
        A tuple: the gradients with respect to operand, scale and offset.

    Example:
        >>> b = Builder("example")
        >>> x, v = b.parameter(0, "f32[4,2]"), b.parameter(1, "f32[2]")
        >>> ops.batch_norm_grad(x, v, v, v, x, 1e-5, 1)
        %batch-norm-grad.3: (f32[4,2], f32[2], f32[2])

    See https://openxla.org/xla/operation_semantics#batchnormgrad
    """
    attributes = BatchNormAttributes(epsilon, feature_index)
    operands = [operand, scale, batch_mean, batch_var, grad_output]
    return operand.builder.instruction(Opcode.BATCH_NORM_GRAD, operands, attributes)

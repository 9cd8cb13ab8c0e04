"""Batch normalisation. Semantics: XLA's BatchNormTraining, -Inference and -Grad."""

from xla_client.builder import Op
from xla_contract.opcode import Opcode
from xla_contract.ops.batch_norm import BatchNormAttributes


def batch_norm_training(
    operand: Op, scale: Op, offset: Op, epsilon: float, feature_index: int
) -> Op:
    """A tuple: the normalised operand, and mean and variance over the batch."""
    attributes = BatchNormAttributes(epsilon, feature_index)
    operands = [operand, scale, offset]
    return operand.builder.instruction(Opcode.BATCH_NORM_TRAINING, operands, attributes)


def batch_norm_inference(
    operand: Op,
    scale: Op,
    offset: Op,
    mean: Op,
    variance: Op,
    epsilon: float,
    feature_index: int,
) -> Op:
    """The operand normalised by a given mean and variance."""
    attributes = BatchNormAttributes(epsilon, feature_index)
    operands = [operand, scale, offset, mean, variance]
    return operand.builder.instruction(Opcode.BATCH_NORM_INFERENCE, operands, attributes)


def batch_norm_grad(
    operand: Op,
    scale: Op,
    batch_mean: Op,
    batch_var: Op,
    grad_output: Op,
    epsilon: float,
    feature_index: int,
) -> Op:
    """A tuple: the gradients of operand, scale and offset."""
    attributes = BatchNormAttributes(epsilon, feature_index)
    operands = [operand, scale, batch_mean, batch_var, grad_output]
    return operand.builder.instruction(Opcode.BATCH_NORM_GRAD, operands, attributes)

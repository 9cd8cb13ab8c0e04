"""iota (XLA's Iota): numbers up along a dimension, converted from S64 as convert does."""

import numpy as np

from xla_contract.ops.shaping.iota import IotaAttributes
from xla_contract.types.element_type import ElementType
from xla_server.ir.module import HloInstruction
from xla_server.ops.elementwise.convert import converted
from xla_server.ops.evaluation import Array, of_operands


@of_operands
def evaluate_iota(instruction: HloInstruction) -> Array:
    """0, 1, 2 ... along iota_dimension, the same along all others."""
    attributes: IotaAttributes = instruction.attributes
    shape, along = instruction.shape, attributes.iota_dimension
    count = np.arange(shape.dimensions[along], dtype=np.int64)
    numbers = converted(count, ElementType.S64, shape.element_type)
    column = numbers.reshape([-1 if d == along else 1 for d in range(shape.rank)])
    return np.broadcast_to(column, shape.dimensions)

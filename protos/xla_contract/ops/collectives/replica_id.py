"""partition-id and replica-id: which part of the program, and which copy of it, this is.

Semantics: XLA's ReplicaId and kPartitionId.
"""

from collections.abc import Sequence

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape


def infer_id(operands: Sequence[Shape]) -> Shape:
    """`u32[]`."""
    return Shape.scalar(ElementType.U32)

"""slice (XLA's Slice): a strided view of a box."""

from typing import Any

import numpy as np

from xla_contract.ops.shaping.slice import SliceAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands


@of_operands
def evaluate_slice(instruction: HloInstruction, operand: Array) -> Array:
    """The elements start, start + stride, ... below limit, in every dimension."""
    attributes: SliceAttributes = instruction.attributes
    # The ellipsis keeps the result of rank 0 an array.
    triples = zip(attributes.starts, attributes.limits, attributes.strides, strict=True)
    boxes: Any = (*(slice(*triple) for triple in triples), ...)
    return np.asarray(operand[boxes])

"""The evaluator of topk: a stable sort of keys that order as the elements do."""

from typing import Any

import numpy as np

from xla_contract.ops.indexing.topk import TopKAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Value, of_operands
from xla_server.ops.numerics.total_order import total_order_key


@of_operands
def evaluate_topk(instruction: HloInstruction, operand: Array) -> Value:
    """(values, positions), best first; floats in their total order, NaN outside infinity."""
    attributes: TopKAttributes = instruction.attributes
    keys = ordering_keys(operand)
    order = np.argsort(~keys if attributes.largest else keys, axis=-1, kind="stable")
    chosen = order[..., : attributes.k]
    return np.take_along_axis(operand, chosen, -1), chosen.astype(np.int32)


def ordering_keys(array: Array) -> Any:
    """Integers that order as the elements do, floats by sign and magnitude of their bits."""
    if array.dtype.kind in "iub":
        return array.astype(np.uint8) if array.dtype.kind == "b" else array
    if array.dtype.isbuiltin == 2:  # A type of ml_dtypes.
        array = array.astype(np.int32 if np.can_cast(array.dtype, np.int32) else np.float32)
        return ordering_keys(array)
    return total_order_key(array)

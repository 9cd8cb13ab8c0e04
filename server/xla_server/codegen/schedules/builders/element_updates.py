"""Dynamic-update-slices of a few elements, lowered to stores in a scalar loop."""

import itertools

from xla_contract.types.opcode import Opcode
from xla_server.codegen.trace.graph import Store
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.movement import start_indices
from xla_server.codegen.trace.tracer import Tracer
from xla_server.ir.analysis.affine import Affine, linear
from xla_server.ir.explicit_stack import result_of
from xla_server.ir.module import HloInstruction


def chain_of(
    root: HloInstruction, max_elements: int
) -> tuple[list[HloInstruction], HloInstruction]:
    """Return the chain of dynamic-update-slices that ends in `root`, and the array it starts from.

    The first update of the chain comes first. Each writes at most `max_elements` elements.
    """
    chain: list[HloInstruction] = []
    while (
        root.opcode is Opcode.DYNAMIC_UPDATE_SLICE
        and 0 < root.operands[1].shape.element_count <= max_elements
    ):
        chain.insert(0, root)
        root = root.operands[0]
    return chain, root


def update_stores(tracer: Tracer, update: HloInstruction, argument: int) -> list[Store]:
    """Return the stores of an update into the buffer `argument`, which holds its first operand."""
    box, sizes = update.operands[1].shape.dimensions, update.shape.dimensions
    first = result_of(start_indices(tracer, update, 2, box))
    kernel_type = KERNEL_TYPE[update.shape.element_type]
    return [
        Store(
            argument,
            kernel_type,
            linear([start + at for start, at in zip(first, index, strict=True)], sizes),
            tracer.value(update.operands[1], tuple(map(Affine, index))),
        )
        for index in itertools.product(*map(range, box))
    ]

"""Updates of a few elements of an array, as stores of a scalar loop."""

import itertools

from xla_contract.types.opcode import Opcode
from xla_server.codegen.trace.graph import Store
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.movement import start_indices
from xla_server.codegen.trace.tracer import Tracer
from xla_server.ir.affine import Affine, linear
from xla_server.ir.explicit_stack import result_of
from xla_server.ir.module import HloInstruction


def chain_of(
    root: HloInstruction, max_elements: int
) -> tuple[list[HloInstruction], HloInstruction]:
    """The updates that make an array, in order, and the array that the first one updates.

    Each updates at most `max_elements`.
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
    """The stores of an update into the buffer `argument`, which has its first operand."""
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

"""Lowering of fusions: loop nests, and products with epilogues."""

from xla_contract.ops.control.fusion import FusionKind
from xla_contract.types.opcode import Opcode
from xla_server.codegen.lower.contraction.convolution import lower_convolution
from xla_server.codegen.lower.contraction.dot import lower_dot
from xla_server.codegen.lower.loop_nests.concatenate import lower_concatenate
from xla_server.codegen.lower.loop_nests.loop_lowering import lower_loop
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.ir.module import HloInstruction

PRODUCERS = {Opcode.DOT: lower_dot, Opcode.CONVOLUTION: lower_convolution}
"""Producers of output fusions, each with its lowering."""


def lower_fusion(lowering: Lowering, i: HloInstruction) -> Tree:
    """Lower a fusion to one kernel: a loop nest, or the producer's with its epilogue."""
    if i.attributes.kind is FusionKind.OUTPUT:
        for inner in i.called[0].instructions:
            lower = PRODUCERS.get(inner.opcode)
            if lower is not None:
                return lower(lowering, inner, i)
    if i.called[0].root.opcode is Opcode.CONCATENATE:
        return lower_concatenate(lowering, i)
    return lower_loop(lowering, i)

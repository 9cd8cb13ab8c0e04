"""Lowering of convolution for a GPU: by a library if it supports the form, or a loop nest."""

from xla_server.codegen.gpu.lower.loop_nests.loop_lowering import lower_loop
from xla_server.codegen.gpu.lower.thunks.library_thunks import add_with_workspace
from xla_server.codegen.gpu.plans.convolution_plans import ConvolutionPlan
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.ir.module import HloInstruction
from xla_server.passes.canonicalize.convolutions.library_convolution import library_convolution
from xla_server.target.gpu.convolution import Direction


def lower_convolution(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add a library's convolution, or a loop nest if the pass found no form of the library."""
    found = library_convolution(i, lowering.target.capability)
    if found is None or not found.is_ready(i):
        return lower_loop(lowering, i)
    plan = ConvolutionPlan(found.convolution)
    first, second = (lowering.array(operand) for operand in i.operands)
    if found.convolution.direction is Direction.DATA_GRADIENT:
        first, second = second, first
    result = lowering.new(i.shape, i.name)
    return add_with_workspace(lowering, i.name, plan, (first, second), result)

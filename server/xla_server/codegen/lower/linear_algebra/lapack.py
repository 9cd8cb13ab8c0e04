"""Lowering of LAPACK's custom calls: every one of them has kernels.

Shapes and attributes were checked when the target was resolved. Operands and results are row-major
here, regardless of the layouts that the program states.
"""

import math
from collections.abc import Mapping

from xla_server.buffers.code import Value
from xla_server.codegen.kernel_ir.builder import Items
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import Index, Usage
from xla_server.codegen.lower.linear_algebra import factorizations as lower_factorizations
from xla_server.codegen.lower.linear_algebra import spectral as lower_spectral
from xla_server.codegen.lower.linear_algebra import triangular as lower_triangular
from xla_server.codegen.lower.linear_algebra.matrix_kernel import (
    Answer,
    MatrixCall,
    MatrixKernel,
    to,
)
from xla_server.codegen.lower.loop_nests.epilogue import EpilogueKernel
from xla_server.codegen.lower.lowering import Lowering, Tree, leaves
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.custom_calls.linear_algebra.batched import ELEMENTS
from xla_server.custom_calls.linear_algebra.lapack import PREFIX
from xla_server.ir.module import HloInstruction

LAPACK_CALLS: Mapping[str, MatrixCall] = {
    **{
        f"lapack_{PREFIX[element]}{name}_ffi": call
        for element in ELEMENTS
        for family in (lower_factorizations, lower_triangular, lower_spectral)
        for name, call in family.calls(element).items()
    },
    **lower_factorizations.PORTABLE,
    **lower_triangular.PORTABLE,
    **lower_spectral.PORTABLE,
}
"""Lowerings by target."""


def lower_lapack(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add the thunks of a call whose target is in LAPACK_CALLS."""
    call = LAPACK_CALLS[i.attributes.target]
    if all(operand.shape.element_count for operand in i.operands):
        k = MatrixKernel(lowering, i, call.rank)
        call.build(k)
        return k.done()
    result = lowering.new_tree(i.shape, i.name)
    first = i.operands[0].shape
    for number, value in enumerate(leaves(result)):
        answer = call.empty.get(number, lambda row, column: Index(0))
        if isinstance(answer, int):
            lowering.copy(value, lowering.array(i.operands[answer]))
        elif value.shape.element_count:
            _fill(lowering, value, answer, first.rank - call.rank)
    return result


def _fill(lowering: Lowering, value: Value, answer: Answer, batch: int) -> None:
    """Add a kernel that writes every element as a function of its row and column."""
    core = value.shape.dimensions[batch:]
    columns = core[-1] if core else 1
    kind = KERNEL_TYPE[value.shape.element_type].storage
    building = EpilogueKernel()
    buffer = building.buffer(value, Usage.WRITE)
    with Items(building.body, value.shape.element_count) as items:
        column = items.let("column", items.axis % columns)
        row = items.let("row", items.axis % math.prod(core) // columns)
        items.store(buffer, kind, items.axis, to(kind, answer(row, column)))
    building.add(lowering, value.name, Effort.OPTIMISED)

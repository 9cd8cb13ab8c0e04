"""The rule for dot: a sum of products, for types and forms that BLAS does not take."""

from xla_contract.ops.contraction.dot import roles_of
from xla_contract.types.element_type import ElementType
from xla_server.codegen.trace.elementwise import arithmetic, converted
from xla_server.codegen.trace.graph import Node, ReductionResult
from xla_server.codegen.trace.reductions import sum_of
from xla_server.codegen.trace.tracer import Index, Tracer
from xla_server.ir.affine import Variable, variable
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction


def trace_dot(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """A loop over the contracted dimensions, in at least f32, rounded once."""
    reduction = t.reductions.get((i, index, t.guard))
    result = i.shape.element_type
    wide = accumulated_type(result)
    if reduction is None:
        lhs, rhs = (operand.shape for operand in i.operands)
        left, right = roles_of(i.attributes.dimension_numbers, lhs.rank, rhs.rank)
        loops = tuple(Variable(lhs.dimensions[d], "k") for d in left.contracting)
        batch, rows = len(left.batch), len(left.batch + left.free)
        factors = []
        for n, (own, free) in enumerate(((left, index[batch:rows]), (right, index[rows:]))):
            places = (*index[:batch], *free, *map(variable, loops))
            at = dict(zip((*own.batch, *own.free, *own.contracting), places, strict=True))
            node: Node = yield t.operand(i, n, tuple(at[d] for d in range(len(at))))
            factors.append(converted(t, node, i.operands[n].shape.element_type, wide))
        product = arithmetic(t, "mul", factors, wide)
        kept = tuple(loop for loop in loops if loop.size != 1)
        if not kept:
            # A sum of one product is that product, -0 too.
            return converted(t, product, wide, result)
        reduction = sum_of(t, product, kept, wide)
        t.reductions[(i, index, t.guard)] = reduction
    return converted(t, ReductionResult(reduction, 0), wide, result)


def accumulated_type(result: ElementType) -> ElementType:
    """The element type that sums are kept in."""
    if result.is_floating and result.bit_width < 32:
        return ElementType.F32
    return ElementType.S32 if result is ElementType.PRED else result

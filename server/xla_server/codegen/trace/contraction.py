"""Rules for dot and convolution: sums of products, for types and forms without other kernels."""

import itertools
import math
from collections.abc import Sequence

from xla_contract.ops.contraction.dot import roles_of
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.codegen.kernel_ir.unrolling import MAX_COPIES
from xla_server.codegen.trace.elementwise import arithmetic, converted, zero
from xla_server.codegen.trace.graph import Immediate, Node, ReductionResult
from xla_server.codegen.trace.reductions import sum_of, window_position
from xla_server.codegen.trace.tracer import NEVER, Index, Tracer
from xla_server.ir.analysis.affine import ZERO, Affine, Variable, variable
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction


def trace_dot(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """A loop over the contracted dimensions, in at least f32, rounded once."""
    reduction = t.reductions.get((i, index, t.guard))
    result = i.shape.element_type
    wide = type_of_sums(result)
    if reduction is None:
        lhs, rhs = (operand.shape for operand in i.operands)
        left, right = roles_of(i.attributes.dimension_numbers, lhs.rank, rhs.rank)
        loops = tuple(t.reduced(lhs.dimensions[d], "k") for d in left.contracting)
        batch, rows = len(left.batch), len(left.batch + left.free)
        factors = []
        for n, (own, free) in enumerate(((left, index[batch:rows]), (right, index[rows:]))):
            indices = (*index[:batch], *free, *map(variable, loops))
            at = dict(zip((*own.batch, *own.free, *own.contracting), indices, strict=True))
            node: Node = yield t.operand(i, n, tuple(at[d] for d in range(len(at))))
            factors.append(converted(t, node, i.operands[n].shape.element_type, wide))
        product = arithmetic(t, "mul", factors, wide)
        kept = tuple(loop for loop in loops if loop.size != 1)
        if not kept:
            # A sum of one product is that product, even -0.
            return converted(t, product, wide, result)
        reduction = sum_of(t, product, kept, wide)
        t.reductions[(i, index, t.guard)] = reduction
    return converted(t, ReductionResult(reduction, 0), wide, result)


def type_of_sums(result: ElementType) -> ElementType:
    """The element type in which sums accumulate."""
    if result.is_floating and result.bit_width < 32:
        return ElementType.F32
    return ElementType.S32 if result is ElementType.PRED else result


MAX_TESTED_COPIES = 16
"""Largest size of a window that is unrolled although its elements are tested for padding or holes:
each element adds one more piece of the result at either edge."""


def trace_convolution(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The sum of products with the elements under the window, zeros for padding, rounded once."""
    result = i.shape.element_type
    wide = accumulated_type([operand.shape for operand in i.operands], i.shape)
    numbers, kernel = i.attributes.dimension_numbers, i.operands[1].shape.dimensions
    if kernel and math.prod(kernel) > 1 and is_filter(i) and _is_tested(i):
        total: Node = yield _sum_of_copies(t, i, index, wide)
        return t.rounded(converted(t, total, wide, result), result)
    reduction = t.reductions.get((i, index, t.guard))
    if reduction is None:
        unrolled = is_filter(i)
        window = [Variable(kernel[d], "k", unrolled) for d in numbers.kernel_order[2:]]
        inputs = Variable(kernel[numbers.kernel_input_feature_dimension], "k")
        offsets = [variable(loop) for loop in window]
        product: Node = yield _product(t, i, index, wide, offsets, variable(inputs))
        # A window that meets no element adds up zeros.
        is_zero = isinstance(product, Immediate) and product.constant == zero(wide).constant
        loops = tuple(loop for loop in (*window, inputs) if loop.size != 1 and not is_zero)
        if not loops:
            # If the convolution is a dot, a sum of one product is that product, even -0. Other sums
            # begin with +0 and so are never -0.
            is_exact = wide.is_integer or wide is ElementType.PRED
            if not (i.attributes.window.is_pointwise or is_exact):
                product = arithmetic(t, "add", [product, zero(wide)], wide)
            return t.rounded(converted(t, product, wide, result), result)
        reduction = t.reductions[(i, index, t.guard)] = sum_of(t, product, loops, wide)
    return t.rounded(converted(t, ReductionResult(reduction, 0), wide, result), result)


def is_filter(i: HloInstruction) -> bool:
    """Return whether one feature is computed from one by an unrolled window."""
    numbers, kernel = i.attributes.dimension_numbers, i.operands[1].shape
    features = (numbers.kernel_input_feature_dimension, numbers.kernel_output_feature_dimension)
    most = MAX_TESTED_COPIES if _is_tested(i) else MAX_COPIES
    return all(kernel.dimensions[d] == 1 for d in features) and kernel.element_count <= most


def _is_tested(i: HloInstruction) -> bool:
    """Return whether some elements under the window are padding or holes."""
    return any(
        d.padding_low > 0 or d.padding_high > 0 or d.base_dilation > 1
        for d in i.attributes.window.dimensions
    )


def _sum_of_copies(t: Tracer, i: HloInstruction, index: Index, wide: ElementType) -> Deep[Node]:
    """Return the sum over a window without a loop, so that tests are of the result's index alone.

    Loops over results are split where such tests change.
    """
    total: Node = zero(wide)
    sizes = (d.size for d in i.attributes.window.dimensions)
    for offsets in itertools.product(*map(range, sizes)):
        product: Node = yield _product(t, i, index, wide, [Affine(each) for each in offsets], ZERO)
        total = arithmetic(t, "add", [total, product], wide)
    return total


def _product(
    t: Tracer,
    i: HloInstruction,
    index: Index,
    wide: ElementType,
    offsets: Sequence[Affine],
    feature_of_group: Affine,
) -> Deep[Node]:
    """Return the product with one element of the window, an addend of a result."""
    numbers, window = i.attributes.dimension_numbers, i.attributes.window.dimensions
    base, kernel = (operand.shape for operand in i.operands)
    batch, feature, *positions = (index[d] for d in numbers.output_order)
    inputs = kernel.dimensions[numbers.kernel_input_feature_dimension]
    outputs = kernel.dimensions[numbers.kernel_output_feature_dimension]
    by_feature, by_batch = i.attributes.feature_group_count, i.attributes.batch_group_count
    group = feature.floordiv(outputs // (by_feature * by_batch))
    read = feature_of_group
    if by_feature > 1:
        read = group * inputs + read
    if by_batch > 1:
        batch = group * i.shape.dimensions[numbers.output_batch_dimension] + batch
    guard: Node | None = None
    spatial = []
    for position, offset, dimension, d in zip(
        positions, offsets, window, numbers.input_spatial_dimensions, strict=True
    ):
        moved, inside = window_position(t, position, offset, dimension, base.dimensions[d])
        spatial.append(moved)
        guard = t.both(guard, inside)
    if guard is NEVER:
        return zero(wide)
    at = _ordered((batch, read, *spatial), numbers.input_order)
    weight_at = _ordered((feature_of_group, feature, *offsets), numbers.kernel_order)

    def element() -> Deep[Node]:
        read: Node = yield t.operand(i, 0, at)
        return converted(t, read, base.element_type, wide)

    factor: Node = yield t.guarded(guard, element())
    weight: Node = yield t.operand(i, 1, weight_at)
    weight = converted(t, weight, kernel.element_type, wide)
    product = arithmetic(t, "mul", [factor, weight], wide)
    if guard is not None:
        # Padding adds no product: an infinite weight times its zeros would be NaN.
        product = t.select(guard, product, zero(wide))
    return product


def _ordered(parts: Sequence[Affine], order: Sequence[int]) -> Index:
    """The index whose dimension order[n] has parts[n]."""
    placed = dict(zip(order, parts, strict=True))
    return tuple(placed[d] for d in range(len(placed)))


def accumulated_type(operands: Sequence[Shape], result: Shape) -> ElementType:
    """The element type that products of these operands are added in."""
    types = {shape.element_type for shape in (*operands, result)}
    double = bool(types & {ElementType.F64, ElementType.C128})
    if any(kind.is_complex for kind in types):
        return ElementType.C128 if double else ElementType.C64
    if any(kind.is_floating for kind in types):
        return ElementType.F64 if double else ElementType.F32
    # Predicates are counted.
    return ElementType.S32 if result.element_type is ElementType.PRED else result.element_type

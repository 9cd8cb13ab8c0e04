"""The rule for convolution: a sum over the window and the input features, for any attributes."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xla_contract.element_type import ElementType
from xla_contract.opcode import Opcode
from xla_contract.shape import Shape
from xla_server.codegen.trace.elementwise import converted, literal
from xla_server.codegen.trace.graph import Node, ReductionResult
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.reductions import sum_of, window_position
from xla_server.codegen.trace.tracer import Index, Rule, Tracer
from xla_server.ir.affine import Affine, Variable, variable
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction


def trace_convolution(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """Products with what lies under the window, zeros in the padding, rounded once."""
    result = i.shape.element_type
    wide = accumulated_type([operand.shape for operand in i.operands], i.shape)
    reduction = t.reductions.get((i, index, t.guard))
    if reduction is None:
        summed: tuple[Node, tuple[Variable, ...]] = yield _product(t, i, index, wide)
        product, loops = summed
        if not loops:
            # A sum of one product is that product, -0 too, where the convolution is a dot.
            if not i.attributes.window.is_pointwise:
                product = _from_zero(t, product, wide)
            return t.rounded(converted(t, product, wide, result), result)
        reduction = t.reductions[(i, index, t.guard)] = sum_of(t, product, loops, wide)
    return t.rounded(converted(t, ReductionResult(reduction, 0), wide, result), result)


def _from_zero(t: Tracer, product: Node, wide: ElementType) -> Node:
    """Return the sum of one product, which begins with +0 and so is never -0."""
    if wide.is_integer or wide is ElementType.PRED:
        return product
    computed = KERNEL_TYPE[wide].computed
    ending = f"_{computed}" if wide.is_complex else ""
    return t.apply(f"add{ending}", [product, literal(wide.dtype.type(0), wide)], computed)


def _product(
    t: Tracer, i: HloInstruction, index: Index, wide: ElementType
) -> Deep[tuple[Node, tuple[Variable, ...]]]:
    """Return the product that a convolution sums, and the loops of the sum."""
    numbers, window = i.attributes.dimension_numbers, i.attributes.window.dimensions
    base, kernel = (operand.shape for operand in i.operands)
    batch, feature, *positions = (index[d] for d in numbers.output_order)
    loops = tuple(Variable(kernel.dimensions[d], "k") for d in numbers.kernel_order[2:])
    inputs = Variable(kernel.dimensions[numbers.kernel_input_feature_dimension], "k")
    outputs = kernel.dimensions[numbers.kernel_output_feature_dimension]
    by_feature, by_batch = i.attributes.feature_group_count, i.attributes.batch_group_count
    group = feature.floordiv(outputs // (by_feature * by_batch))
    read = variable(inputs)
    if by_feature > 1:
        read = group * inputs.size + read
    if by_batch > 1:
        batch = group * i.shape.dimensions[numbers.output_batch_dimension] + batch
    guard: Node | None = None
    spatial = []
    for position, loop, dimension, d in zip(
        positions, loops, window, numbers.input_spatial_dimensions, strict=True
    ):
        moved, inside = window_position(t, position, variable(loop), dimension, base.dimensions[d])
        spatial.append(moved)
        guard = t.both(guard, inside)
    at = _ordered((batch, read, *spatial), numbers.input_order)
    weight_at = _ordered((variable(inputs), feature, *map(variable, loops)), numbers.kernel_order)
    computed = KERNEL_TYPE[wide].computed
    ending = f"_{computed}" if wide.is_complex else ""
    zero = literal(wide.dtype.type(0), wide)

    def element() -> Deep[Node]:
        read: Node = yield t.operand(i, 0, at)
        return converted(t, read, base.element_type, wide)

    factor: Node = yield t.guarded(guard, element())
    weight: Node = yield t.operand(i, 1, weight_at)
    weight = converted(t, weight, kernel.element_type, wide)
    product = t.apply(f"mul{ending}", [factor, weight], computed)
    if guard is not None:
        # Padding takes no part: an infinite weight would make NaN of its zeros.
        product = t.select(guard, product, zero)
    return product, tuple(loop for loop in (*loops, inputs) if loop.size != 1)


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
    # Truth values are counted.
    return ElementType.S32 if result.element_type is ElementType.PRED else result.element_type


CONVOLUTION_RULES: Mapping[Opcode, Rule] = MappingProxyType({Opcode.CONVOLUTION: trace_convolution})

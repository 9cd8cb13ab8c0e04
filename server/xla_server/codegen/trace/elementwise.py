"""Rules for elementwise operations, comparisons, conversions, constants and called computations."""

from collections.abc import Mapping, Sequence

import numpy as np

from xla_contract.ops.elementwise.compare import ComparisonType
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.codegen.functions.bits.narrow_floats import FORMATS, nan_bits
from xla_server.codegen.trace.graph import Immediate, Node
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.tracer import Index, Tracer
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction
from xla_server.ops.elementwise.elementwise_table import ROWS
from xla_server.ops.numerics.numeric import WITHOUT_NAN


def trace_elementwise(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """Apply the kernel function of the row and round to the element type. Scalars are broadcast."""
    operands: list[Node] = []
    for k, operand in enumerate(i.operands):
        node: Node = yield t.operand(i, k, index if operand.shape.rank else ())
        operands.append(node)
    element_type = i.operands[0].shape.element_type
    row = ROWS[i.opcode]
    if row.widens_to_c128(element_type):
        operands = [t.apply("to_c128", [operand], "c128") for operand in operands]
        function = row.kernel_function(element_type, "c128")
        return t.apply("to_c64", [t.apply(function, operands, "c128")], "c64")
    function = row.kernel_function(element_type, operands[0].type)
    result = t.apply(function, operands, KERNEL_TYPE[i.shape.element_type].computed)
    if row.is_exact and i.shape.element_type.bit_width >= 16:
        # Narrower types may lack the next whole number, -0, or the positive of the smallest number.
        return result
    return t.rounded(result, i.shape.element_type)


def trace_compare(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The comparison; a total order of floats compares integers made from the bits."""
    operands: list[Node] = yield t.operands(i, 2, index)
    relation = i.attributes.direction.lower()
    if i.attributes.type is ComparisonType.TOTALORDER and operands[0].type in ("f32", "f64"):
        keyed = f"i{operands[0].type[1:]}"
        operands = [t.apply(f"total_order_{o.type}", [o], keyed) for o in operands]
    if operands[0].type in ("c64", "c128"):
        relation = f"{relation}_{operands[0].type}"
    return t.apply(relation, operands, "b1")


def trace_select(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """One of two elements; both are computed."""
    scalar = not i.operands[0].shape.dimensions
    predicate: Node = yield t.operand(i, 0, () if scalar else index)
    on_true: Node = yield t.operand(i, 1, index)
    on_false: Node = yield t.operand(i, 2, index)
    return t.select(predicate, on_true, on_false)


def trace_convert(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The number in another element type."""
    node: Node = yield t.operand(i, 0, index)
    return converted(t, node, i.operands[0].shape.element_type, i.shape.element_type)


def converted(t: Tracer, node: Node, source: ElementType, target: ElementType) -> Node:
    """A node of element type `source` as one of `target`."""
    if source is target:
        return node
    computed = KERNEL_TYPE[target].computed
    if source.is_complex and not target.is_complex and target is not ElementType.PRED:
        node = t.apply(f"real_{node.type}", [node], "f32" if node.type == "c64" else "f64")
        source = source.real_component
    if target is ElementType.PRED:
        name = source.text if source in _OWN_PREDICATES else node.type
        return t.apply(f"to_pred_{name}", [node], "b1")
    if target.is_complex:
        if source.is_complex:
            return t.apply(f"to_{computed}", [node], computed)
        part = converted(t, node, source, target.real_component)
        return t.apply(f"{computed}_of_real", [part], computed)
    if target.is_integer and source.is_floating:
        if source in WITHOUT_NAN:
            node = t.apply(f"unbounded_{source.text}", [node], "f32")
        return t.apply(f"saturate_{target.text}_{node.type}", [node], computed)
    own = _OWN_CONVERSION.get((source, target))
    if own is not None:
        node = t.apply(own, [node], computed)
    elif node.type != computed:
        node = t.apply(f"to_{computed}", [node], computed)
    return t.rounded(node, target)


def arithmetic(t: Tracer, function: str, operands: Sequence[Node], kind: ElementType) -> Node:
    """Return the sum or product of numbers of an element type, not rounded to it."""
    computed = KERNEL_TYPE[kind].computed
    name = f"{function}_{computed}" if kind.is_complex else function
    return t.apply(name, operands, computed)


_OWN_PREDICATES = (ElementType.BF16, ElementType.F8E8M0FNU)
"""Types with their own conversions to PRED. For F32 and F64 the processor's mode flushes subnormal
numbers. BF16 keeps them. F8E8M0FNU has no zero, which LLVM knows, but its smallest is flushed."""

_OWN_CONVERSION: Mapping[tuple[ElementType, ElementType], str] = {
    (ElementType.F64, ElementType.F16): "f64_to_odd_f32",
    (ElementType.F64, ElementType.F8E8M0FNU): "f64_to_f8e8m0fnu",
    (ElementType.F8E8M0FNU, ElementType.F64): "f8e8m0fnu_to_f64",
}
"""Conversions that would round twice, or flush to zero, if they went through F32."""


def trace_reduce_precision(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The number rounded to fewer bits."""
    node: Node = yield t.operand(i, 0, index)
    element_type = i.shape.element_type
    name = element_type.text if element_type.bit_width >= 16 else "f16"
    if element_type is ElementType.F8E8M0FNU:
        name = "f32"
    exponent = Immediate.of("i32", i.attributes.exponent_bits)
    mantissa = Immediate.of("i32", i.attributes.mantissa_bits)
    found = t.apply(f"reduce_precision_{name}", [node, exponent, mantissa], node.type)
    return t.rounded(found, element_type)


def trace_constant(t: Tracer, i: HloInstruction, index: Index, number: int) -> Node:
    """A constant of one element; larger ones are in buffers."""
    return literal(np.asarray(i.attributes.literal.value).reshape(-1)[0], i.shape.element_type)


def literal(value: "np.generic", element_type: ElementType) -> Immediate:
    """An element as a constant of its computed type."""
    computed = KERNEL_TYPE[element_type].computed
    if computed in ("c64", "c128"):
        return Immediate.of(computed, *(_bits(part, computed) for part in (value.real, value.imag)))
    if computed in ("f32", "f64"):
        format = FORMATS.get(element_type.text)
        if format is not None and format.has_many_nans and np.isnan(value):
            return Immediate.of("f32", nan_bits(int(np.asarray(value).view(np.uint8)), format))
        return Immediate.of(computed, _bits(value, computed))
    return Immediate.of(computed, int(bool(value)) if computed == "b1" else int(value))


def zero(kind: ElementType) -> Immediate:
    """Return the zero of an element type."""
    return literal(kind.dtype.type(0), kind)


def _bits(value: "np.generic", computed: str) -> int:
    if computed in ("f32", "c64"):
        return int(np.asarray(value).astype(np.float32).view(np.uint32))
    return int(np.asarray(value).astype(np.float64).view(np.uint64))


def trace_map(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The called computation of one element of each operand."""
    elements: list[Node] = yield t.operands(i, len(i.operands), index)
    results: tuple[Node, ...] = yield t.called(i.called[0], elements)
    return results[number]


def trace_fusion(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The element of the called computation's root, whose parameters are the operands."""
    (called,) = i.called
    t.enter(called, i.operands)
    root = called.root
    if root.opcode is Opcode.TUPLE:
        root = root.operands[number]
        number = 0
    return t.element(root, index, number)


def trace_parameter(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The element of the operand that a fusion binds the parameter to."""
    return t.element(t.bindings[i], index, number)

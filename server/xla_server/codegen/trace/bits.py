"""Rules for operations on the bits of elements: bitcast-convert and stochastic-convert."""

import functools

from xla_contract.types.element_type import ElementType
from xla_server.codegen.trace.elementwise import converted
from xla_server.codegen.trace.graph import Immediate, Load, Node, Position
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE, KernelType
from xla_server.codegen.trace.tracer import Index, Tracer
from xla_server.ir.analysis.affine import Affine
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction


def trace_bitcast_convert(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The bits as another type: of the same element, a part of one, or several elements."""
    old, new = i.operands[0].shape.element_type, i.shape.element_type
    node: Node
    if old.is_complex:
        node = yield _complex(t, i, index)
        return node
    ratio = max(old.bit_width, new.bit_width) // min(old.bit_width, new.bit_width)
    if ratio == 1:
        node = yield t.operand(i, 0, index)
        return _of_bits(t, _bits(t, node, old), new)
    if old.bit_width > new.bit_width:
        node = yield _part(t, i, index)
        return _of_bits(t, node, new)
    storage = _storage(new)
    parts = []
    for part in range(ratio):
        node = yield t.operand(i, 0, (*index, Affine(part)))
        wide = t.apply(f"to_{storage}", [_bits(t, node, old)], storage)
        shift = Immediate.of(storage, part * old.bit_width)
        parts.append(t.apply("shift_left", [wide, shift], storage))
    bits = functools.reduce(lambda low, high: t.apply("bit_or", [low, high], high.type), parts)
    return _of_bits(t, bits, new)


def _part(t: Tracer, i: HloInstruction, index: Index) -> Deep[Node]:
    """The bits of the part of an element that the last index selects, low ones first."""
    old, new = i.operands[0].shape.element_type, i.shape.element_type
    node: Node = yield t.operand(i, 0, index[:-1])
    bits = _bits(t, node, old)
    part = t.apply(f"to_{bits.type}", [Position(index[-1])], bits.type)
    distance = t.apply("mul", [part, Immediate.of(bits.type, new.bit_width)], bits.type)
    moved = t.apply("shift_right_logical", [bits, distance], bits.type)
    return t.apply(f"to_{_storage(new)}", [moved], _storage(new))


def _complex(t: Tracer, i: HloInstruction, index: Index) -> Deep[Node]:
    """Return the bits read as another complex type: one C128 is two C64."""
    old, new = i.operands[0].shape.element_type, i.shape.element_type
    if old is new:
        same: Node = yield t.operand(i, 0, index)
        return same
    if new is ElementType.C128:
        parts = []
        for number in (0, 1):
            half: Node = yield t.operand(i, 0, (*index, Affine(number)))
            reals = (t.apply(f"{part}_c64", [half], "f32") for part in ("real", "imag"))
            words = (_bits(t, real, ElementType.F32) for real in reals)
            low, high = (t.apply("to_u64", [word], "u64") for word in words)
            high = t.apply("shift_left", [high, Immediate.of("u64", 32)], "u64")
            bits = t.apply("bit_or", [low, high], "u64")
            parts.append(t.apply("bits_f64", [bits], "f64"))
        return t.apply("complex_f64", parts, "c128")
    whole: Node = yield t.operand(i, 0, index[:-1])
    first = t.apply("eq", [Position(index[-1]), Immediate.of("i64", 0)], "b1")
    real, imag = (t.apply(f"{part}_c128", [whole], "f64") for part in ("real", "imag"))
    bits = _bits(t, t.apply("select", [first, real, imag], "f64"), ElementType.F64)
    high = t.apply("shift_right_logical", [bits, Immediate.of("u64", 32)], "u64")
    halves = [t.apply("to_u32", [half], "u32") for half in (bits, high)]
    return t.apply("complex_f32", [t.apply("bits_f32", [half], "f32") for half in halves], "c64")


def _storage(element_type: ElementType) -> str:
    return f"u{8 * element_type.byte_width}"


def _bits(t: Tracer, node: Node, element_type: ElementType) -> Node:
    """The bits of an element as an unsigned number."""
    storage = _storage(element_type)
    kernel_type = KERNEL_TYPE[element_type]
    if kernel_type.computed in ("f32", "f64"):
        if kernel_type.storage == kernel_type.computed:
            return t.apply(f"bits_{storage}", [node], storage)
        if isinstance(node, Load):
            # The bits are loaded without conversion: one to F32 would make all NaNs of a type
            # equal.
            as_stored = KernelType(storage, storage)
            return Load(node.argument, as_stored, node.offset, node.size, node.guard)
        return t.apply(kernel_type.narrow or "", [node], storage)
    bits = t.apply(f"to_{storage}", [node], storage)
    if element_type.bit_width < 8:
        mask = Immediate.of(storage, (1 << element_type.bit_width) - 1)
        bits = t.apply("bit_and", [bits, mask], storage)
    return bits


def _of_bits(t: Tracer, bits: Node, element_type: ElementType) -> Node:
    """An element from its bits; those beyond its width are ignored."""
    kernel_type = KERNEL_TYPE[element_type]
    if element_type is ElementType.PRED:
        return t.apply("ne", [bits, Immediate.of(bits.type, 0)], "b1")
    if kernel_type.computed in ("f32", "f64"):
        if kernel_type.storage == kernel_type.computed:
            return t.apply(f"bits_{kernel_type.computed}", [bits], kernel_type.computed)
        if element_type.bit_width < 8:
            mask = Immediate.of(bits.type, (1 << element_type.bit_width) - 1)
            bits = t.apply("bit_and", [bits, mask], bits.type)
        return t.apply(kernel_type.widen or "", [bits], kernel_type.computed)
    node = t.apply(f"to_{kernel_type.computed}", [bits], kernel_type.computed)
    return t.rounded(node, element_type)


def trace_stochastic_convert(t: Tracer, i: HloInstruction, index: Index, number: int) -> Deep[Node]:
    """The operand as an integer: truncated, or away from zero if the random number is small."""
    operand: Node = yield t.operand(i, 0, index)
    random: Node = yield t.operand(i, 1, index)
    source, drawn = (part.shape.element_type for part in i.operands)
    wide = converted(t, operand, source, ElementType.F64)
    bits = t.apply("to_u64", [random], "u64")
    scale = Immediate.of("f64", (1023 + drawn.bit_width) << 52)
    target = i.shape.element_type
    computed = KERNEL_TYPE[target].computed
    return t.rounded(t.apply(f"stochastic_{target.text}", [wide, bits, scale], computed), target)

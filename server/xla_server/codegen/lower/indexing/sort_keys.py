"""Comparators that order by a key, and the key as a scalar graph."""

import dataclasses
from collections.abc import Mapping, Sequence

from xla_contract.types.element_type import ElementType
from xla_server.codegen.schedules.builders.scalar_builder import Named, element_variable
from xla_server.codegen.trace.graph import Apply, Immediate, Node, reached
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Tracer, integer
from xla_server.ir.module import HloComputation


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """A key of `bytes` bytes as a signed number in 64 bits; smaller ones come first.

    It is computed from one element of each operand whose number is in `elements`.
    """

    node: Node
    bytes: int
    elements: Mapping[int, Named]


def key_of(comparator: HloComputation, types: Sequence[ElementType]) -> Key | None:
    """The key that a comparator compares; None for another form of comparator.

    If floats are compared in no total order, -0 and 0 have one key and NaN is beyond infinity: a
    comparator that is false for NaN on either side leaves NaN's position open.
    """
    tracer = Tracer(RULES, {})
    pairs = [(element_variable("a", kind), element_variable("b", kind)) for kind in types]
    (result,) = tracer.call(comparator, [variable for pair in pairs for variable in pair])
    if not isinstance(result, Apply) or result.function not in ("lt", "gt"):
        return None
    left, right = result.operands
    ascending = result.function == "lt"
    if not _mirrors(left, right, dict(pairs)):
        left, right, ascending = right, left, not ascending
        if not _mirrors(left, right, dict(pairs)):
            return None
    found = set(reached([left]))
    elements = {n: first for n, (first, _) in enumerate(pairs) if first in found}
    return make_key(tracer, left, ascending, elements) if elements else None


def element_key(element_type: ElementType, *, ascending: bool) -> Key:
    """The key that is an element of operand 0, floats in their total order."""
    tracer = Tracer(RULES, {})
    node: Node = (element := element_variable("a", element_type))
    if node.type in ("f32", "f64"):
        node = tracer.apply(f"total_order_{node.type}", [node], f"i{node.type[1:]}")
    return make_key(tracer, node, ascending, {0: element})


def make_key(t: Tracer, node: Node, ascending: bool, elements: Mapping[int, Named]) -> Key:
    """The integer key with the order of numbers of a computed type."""
    if node.type in ("f32", "f64"):
        zero = Immediate.of(node.type, 0)
        node = t.apply("select", [t.apply("eq", [node, zero], "b1"), zero, node], node.type)
        node = t.apply(f"total_order_{node.type}", [node], f"i{node.type[1:]}")
    size = 1 if node.type == "b1" else int(node.type[1:]) // 8
    if node.type == "u64":
        node = t.apply("bits_i64", [node], "i64")
        node = t.apply("bit_xor", [node, integer(-(2**63))], "i64")
    else:
        half = 2 ** (8 * size - 1) if node.type[0] == "u" else 0
        node = t.apply("to_i64", [node], "i64")
        if half:
            node = t.apply("sub", [node, integer(half)], "i64")
    if not ascending:
        node = t.apply("bit_not", [node], "i64")
    return Key(node, size, elements)


def _mirrors(left: Node, right: Node, pairs: dict[Named, Named]) -> bool:
    """Return whether `right` is `left` with the second element of each pair for the first."""
    seen: dict[Node, Node] = {}
    waiting = [(left, right)]
    while waiting:
        first, second = waiting.pop()
        if first in seen:
            if seen[first] is not second:
                return False
            continue
        seen[first] = second
        if isinstance(first, Named):
            if pairs.get(first) is not second:
                return False
        elif isinstance(first, Apply):
            if (
                not isinstance(second, Apply)
                or (first.function, first.type) != (second.function, second.type)
                or len(first.operands) != len(second.operands)
            ):
                return False
            waiting += zip(first.operands, second.operands, strict=True)
        elif not (
            isinstance(first, Immediate)
            and isinstance(second, Immediate)
            and first.constant == second.constant
        ):
            return False
    return True

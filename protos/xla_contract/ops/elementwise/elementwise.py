"""The shape rules of elementwise operations: one row of the table for each.

Semantics: XLA's shape inference of unary, binary and ternary operations. Operands have equal
dimensions; HLO has no implicit broadcasts.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from xla_contract.ops import rules
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class ElementwiseRule:
    """The shape rule of one elementwise operation, whose operands have equal types."""

    types: rules.TypeSet
    """The element types of the operands."""

    result_type: Callable[[ElementType], ElementType] = lambda operand: operand
    """The element type of the result, given that of the operands."""

    infer: Callable[[Sequence[Shape]], Shape] | None = None
    """The shape rule, if the dimensions of operands may differ."""


def _real_component(operand: ElementType) -> ElementType:
    return operand.real_component


def _clamp(operands: Sequence[Shape]) -> Shape:
    """Return the shape of the middle operand; each bound is a scalar or has its dimensions."""
    low, operand, high = operands
    rules.expect_type(operand, rules.REAL, "the operand")
    for bound, name in ((low, "min and the operand"), (high, "max and the operand")):
        rules.expect_array(bound, name.split()[0])
        rules.expect_same_type(bound, operand, name)
        if not bound.is_scalar:
            rules.expect_same_dimensions(bound, operand, name)
    return operand.with_dimensions(operand.dimensions, _any_as_large(operand, operands))


def _any_as_large(shape: Shape, operands: Sequence[Shape]) -> tuple[bool, ...]:
    """Return which dimensions are dynamic in `shape` or in an operand that is not a scalar."""
    return rules.any_dynamic([shape, *(part for part in operands if part.rank)])


ELEMENTWISE: Mapping[Opcode, ElementwiseRule] = {
    Opcode.ABS: ElementwiseRule(rules.SIGNED_OR_COMPLEX, _real_component),
    Opcode.ACOS: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.ACOSH: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.ASIN: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.ASINH: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.ATAN: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.ATANH: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.CBRT: ElementwiseRule(rules.FLOATING),
    Opcode.CEIL: ElementwiseRule(rules.FLOATING),
    Opcode.COSH: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.COSINE: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.COUNT_LEADING_ZEROS: ElementwiseRule(rules.INTEGRAL),
    Opcode.ERF: ElementwiseRule(rules.FLOATING),
    Opcode.EXPONENTIAL: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.EXPONENTIAL_MINUS_ONE: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.FLOOR: ElementwiseRule(rules.FLOATING),
    Opcode.IMAG: ElementwiseRule(rules.FLOATING_OR_COMPLEX, _real_component),
    Opcode.IS_FINITE: ElementwiseRule(rules.FLOATING, lambda operand: ElementType.PRED),
    Opcode.LOG: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.LOG_PLUS_ONE: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.LOGISTIC: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.NEGATE: ElementwiseRule(rules.NUMERIC),
    Opcode.NOT: ElementwiseRule(rules.LOGICAL),
    Opcode.POPCNT: ElementwiseRule(rules.INTEGRAL),
    Opcode.REAL: ElementwiseRule(rules.FLOATING_OR_COMPLEX, _real_component),
    Opcode.ROUND_NEAREST_AFZ: ElementwiseRule(rules.FLOATING),
    Opcode.ROUND_NEAREST_EVEN: ElementwiseRule(rules.FLOATING),
    Opcode.RSQRT: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.SIGN: ElementwiseRule(rules.SIGNED_OR_COMPLEX),
    Opcode.SINE: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.SINH: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.SQRT: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.TAN: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.TANH: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.ADD: ElementwiseRule(rules.ANY),
    Opcode.AND: ElementwiseRule(rules.LOGICAL),
    Opcode.ATAN2: ElementwiseRule(rules.FLOATING_OR_COMPLEX),
    Opcode.CLAMP: ElementwiseRule(rules.REAL, infer=_clamp),
    Opcode.COMPLEX: ElementwiseRule(rules.COMPONENT, lambda operand: operand.complex_of),
    Opcode.DIVIDE: ElementwiseRule(rules.NUMERIC),
    Opcode.MAXIMUM: ElementwiseRule(rules.ANY),
    Opcode.MINIMUM: ElementwiseRule(rules.ANY),
    Opcode.MULHI: ElementwiseRule(rules.INTEGRAL),
    Opcode.MULTIPLY: ElementwiseRule(rules.ANY),
    Opcode.OR: ElementwiseRule(rules.LOGICAL),
    Opcode.POWER: ElementwiseRule(rules.NUMERIC),
    Opcode.REMAINDER: ElementwiseRule(rules.REAL_NUMERIC),
    Opcode.SHIFT_LEFT: ElementwiseRule(rules.INTEGRAL),
    Opcode.SHIFT_RIGHT_ARITHMETIC: ElementwiseRule(rules.INTEGRAL),
    Opcode.SHIFT_RIGHT_LOGICAL: ElementwiseRule(rules.INTEGRAL),
    Opcode.SUBTRACT: ElementwiseRule(rules.NUMERIC),
    Opcode.XOR: ElementwiseRule(rules.LOGICAL),
}
"""The rule of each elementwise operation without attributes whose operands have one type."""

UNARY, BINARY = (
    {o: rule.types for o, rule in ELEMENTWISE.items() if o.arity == arity} for arity in (1, 2)
)
"""The element types of the operations of one and of two operands."""

_OPERANDS = {1: ("the operand",), 2: ("the left operand", "the right operand")}


def _rule(opcode: Opcode) -> Callable[[Sequence[Shape]], Shape]:
    rule = ELEMENTWISE[opcode]

    def infer(operands: Sequence[Shape]) -> Shape:
        if rule.infer is not None:
            return rule.infer(operands)
        for operand, name in zip(operands, _OPERANDS[opcode.arity], strict=True):
            rules.expect_type(operand, rule.types, name)
        for operand in operands[1:]:
            rules.expect_same(operands[0], operand, "operands")
        element_type = rule.result_type(operands[0].element_type)
        dynamic = rules.any_dynamic(operands)
        return Shape.array(element_type, operands[0].dimensions, None, dynamic)

    return infer


def infer_select(operands: Sequence[Shape]) -> Shape:
    """The shape of the chosen operands; the predicate is a scalar or as large as they are."""
    predicate, on_true, on_false = operands
    rules.expect_array(on_true, "on_true")
    rules.expect_array(on_false, "on_false")
    rules.expect_type(predicate, _PREDICATE, "the predicate")
    rules.expect_same(on_true, on_false, "on_true and on_false")
    if not predicate.is_scalar:
        rules.expect_same_dimensions(predicate, on_true, "the predicate and on_true")
    return on_true.with_dimensions(on_true.dimensions, _any_as_large(on_true, operands))


_PREDICATE = rules.TypeSet("pred", frozenset({ElementType.PRED}))

RULES = dict(zip(ELEMENTWISE, map(_rule, ELEMENTWISE), strict=True))
"""The shape rules of the table."""

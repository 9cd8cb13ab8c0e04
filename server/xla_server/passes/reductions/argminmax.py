"""Argmax and argmin: the extremum first, then its index.

Frameworks write it as one reduction of pairs, each step of which depends on the previous one. Two
reductions, one of values and one of indices, can be vectorised, and divided among threads.
"""

import math

import ml_dtypes

from xla_contract.ops.elementwise.compare import ComparisonDirection, ComparisonType
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ir.traversal import in_post_order
from xla_server.passes.framework.editor import Editor, users
from xla_server.passes.framework.queries import neutral_of, splat
from xla_server.passes.framework.rewrite_pass import Rule, TargetRewritePass

_EXTREMUM = {ComparisonDirection.GT: Opcode.MAXIMUM, ComparisonDirection.LT: Opcode.MINIMUM}


class ArgumentOfExtremum(TargetRewritePass):
    """Splits reductions of (value, index), of which only the index is read.

    The result is the index of the first of several equal extrema, or of the first NaN. Indices must
    be those of the reduced elements, and the initial pair must lose against all.
    """

    name = "argument-of-extremum"
    opcodes = (Opcode.GET_TUPLE_ELEMENT,)

    def _rule_in(self, computation: HloComputation, editor: Editor) -> Rule:
        readers = users(computation)
        keeps_columns = self.target.capability.VECTORISES_COLUMNS

        def split(i: HloInstruction) -> HloInstruction | None:
            if i.attributes.index != 1 or readers.get(i.operands[0]) != [i]:
                return None
            return _split(i.operands[0], editor, keeps_columns=keeps_columns)

        return split


def _split(i: HloInstruction, editor: Editor, *, keeps_columns: bool) -> HloInstruction | None:
    """Return the index alone; None for another form of reduction."""
    if i.opcode is not Opcode.REDUCE or len(i.operands) != 4 or len(i.attributes.dimensions) != 1:
        return None
    values, indices, first_value, first_index = i.operands
    (d,) = i.attributes.dimensions
    sizes, kind, counted = values.shape.dimensions, values.shape.element_type, indices.shape
    opcode = _extremum(i.called[0], kind)
    if opcode is None or not sizes[d] or (keeps_columns and math.prod(sizes[d + 1 :]) != 1):
        return None
    neutral, initial = neutral_of(opcode, kind), splat(first_value)
    if neutral is None or initial is None or initial != neutral or splat(first_index) != 0:
        return None
    if not counted.element_type.is_integer or not _counts(indices, d):
        return None
    last = ml_dtypes.iinfo(counted.element_type.dtype).max  # type: ignore[no-untyped-call]
    if sizes[d] - 1 > last:
        return None

    def reduced(operand: HloInstruction, start: HloInstruction, how: Opcode) -> HloInstruction:
        reducer = editor.binary_computation(how, operand.shape.element_type)
        return editor.reduce(operand, start, (d,), reducer)

    extremum = reduced(values, first_value, opcode)
    kept = [n for n in range(len(sizes)) if n != d]
    found = editor.compare(values, editor.broadcast(extremum, kept, sizes), ComparisonDirection.EQ)
    if kind.is_floating:
        # A NaN extremum equals nothing: its index is that of the first NaN.
        found = editor.add(
            Opcode.OR, (found, editor.compare(values, values, ComparisonDirection.NE))
        )
    nowhere = editor.full(last, counted.element_type, sizes)
    candidates = editor.add(Opcode.SELECT, (found, indices, nowhere))
    return reduced(candidates, editor.constant(last, counted.element_type), Opcode.MINIMUM)


def _counts(indices: HloInstruction, dimension: int) -> bool:
    """Return whether an array holds each element's index in a dimension."""
    while indices.opcode is Opcode.BROADCAST:
        if dimension not in indices.attributes.dimensions:
            return False
        dimension = indices.attributes.dimensions.index(dimension)
        (indices,) = indices.operands
    return indices.opcode is Opcode.IOTA and indices.attributes.iota_dimension == dimension


def _extremum(reducer: HloComputation, kind: ElementType) -> Opcode | None:
    """Return the extremum that a reducer of pairs selects, the lower index of equals; or None."""
    if len(reducer.parameters) != 4 or reducer.root.opcode is not Opcode.TUPLE:
        return None
    one, index, other, other_index = reducer.parameters
    value, selected_index = reducer.root.operands
    if value.opcode is not Opcode.SELECT or selected_index.opcode is not Opcode.SELECT:
        return None
    wins, *values = value.operands
    stays, *selected = selected_index.operands
    if values != [one, other] or selected != [index, other_index]:
        return None
    ties = [part for part in _alternatives(stays) if part not in _alternatives(wins)]
    if len(ties) != 1 or set(_alternatives(stays)) != {*_alternatives(wins), *ties}:
        return None
    if ties[0].opcode is not Opcode.AND or {_test(part) for part in ties[0].operands} != {
        (ComparisonDirection.EQ, one, other),
        (ComparisonDirection.LT, index, other_index),
    }:
        return None
    tests = {_test(part) for part in _alternatives(wins)}
    if kind.is_floating:
        is_no_number = (ComparisonDirection.NE, one, one)
        if is_no_number not in tests:
            return None
        tests.remove(is_no_number)
    found = (opcode for way, opcode in _EXTREMUM.items() if tests == {(way, one, other)})
    return next(found, None)


def _alternatives(condition: HloInstruction) -> list[HloInstruction]:
    """Return the operands of a tree of `or`."""
    parts = in_post_order([condition], lambda i: i.operands if i.opcode is Opcode.OR else ())
    return [part for part in parts if part.opcode is not Opcode.OR]


def _test(i: HloInstruction) -> tuple[ComparisonDirection, HloInstruction, HloInstruction] | None:
    """The direction and the operands of a comparison by the order of the type."""
    if i.opcode is not Opcode.COMPARE:
        return None
    left, right = i.operands
    is_usual = i.attributes.type in (None, ComparisonType.default(left.shape.element_type))
    return (i.attributes.direction, left, right) if is_usual else None

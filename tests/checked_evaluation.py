"""Evaluation of programs in which every value is held against its instruction's shape."""

import dataclasses
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from xla_contract.errors import InternalError
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes, is_full
from xla_server.evaluator.interpret import evaluate
from xla_server.evaluator.plan import Plan, PlanCache, PlannedInstruction
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ops.evaluation import Frame, Token, Value

_SET_SIZES = frozenset(
    {
        Opcode.ASYNC_START,
        Opcode.CALL,
        Opcode.CONDITIONAL,
        Opcode.FUSION,
        Opcode.SET_DIMENSION_SIZE,
        Opcode.WHILE,
    }
)
"""Opcodes that set sizes themselves, or in the computations that they call."""


def evaluate_checked(
    program: HloModule | HloComputation, arguments: Sequence[Any], **named: Any
) -> Any:
    """Return what `evaluate` returns; InternalError names an instruction whose value is off."""
    named.setdefault("plans", CheckedPlans(is_dynamic=has_dynamic_shapes(program)))
    return evaluate(program, arguments, **named)


class CheckedPlans(PlanCache):
    """Plans whose steps raise InternalError for a value that has not the instruction's shape."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._checked_plans: dict[HloComputation, Plan] = {}

    def of(self, computation: HloComputation) -> Plan:
        """The plan of `computation`; raises as PlanCache.of."""
        found = self._checked_plans.get(computation)
        if found is None:
            plan = super().of(computation)
            found = dataclasses.replace(plan, steps=tuple(map(self._checked, plan.steps)))
            self._checked_plans[computation] = found
        return found

    def _checked(self, step: PlannedInstruction) -> PlannedInstruction:
        def checked(i: HloInstruction, operands: Sequence[Value], frame: Frame) -> Deep[Value]:
            made = step.evaluate(i, operands, frame)
            value: Value = (yield made) if isinstance(made, Generator) else made
            may_be_smaller = self.is_dynamic and _may_be_smaller(i, operands)
            if not has_shape(value, i.shape, may_be_smaller):
                raise InternalError(
                    f"the value must have the instruction's shape, got {describe(value)} for "
                    f"{i.shape}"
                )
            return value

        return dataclasses.replace(step, evaluate=checked)


def _may_be_smaller(instruction: HloInstruction, operands: Sequence[Value]) -> bool:
    """Return whether dimensions that are declared static may be smaller in the result.

    Shapes are compatible whether or not a dimension is dynamic, so sizes that an instruction sets,
    or that an operand has, may be those of such a dimension.
    """
    is_set = instruction.opcode in _SET_SIZES
    return is_set or not all(map(is_full, instruction.operands, operands))


def has_shape(value: Value, shape: Shape, may_be_smaller: bool = False) -> bool:
    """Return whether `value` has the numpy types, dimensions and tuple structure of `shape`.

    Dynamic dimensions may be smaller than declared; static ones only if the value `may_be_smaller`.
    """
    if shape.is_tuple:
        return (
            isinstance(value, tuple)
            and len(value) == len(shape.tuple_shapes)
            and all(map(has_shape, value, shape.tuple_shapes, [may_be_smaller] * len(value)))
        )
    if shape.is_array:
        return (
            isinstance(value, np.ndarray)
            and value.dtype == shape.element_type.dtype
            and value.ndim == shape.rank
            and all(
                size == bound or (size < bound and (may_be_smaller or shape.is_dynamic(number)))
                for number, size, bound in zip(
                    range(value.ndim), value.shape, shape.dimensions, strict=True
                )
            )
        )
    return isinstance(value, Token)


def describe(value: object) -> str:
    """Describe a value in numpy's terms, for messages."""
    if isinstance(value, tuple):
        return f"({', '.join(map(describe, value))})"
    if isinstance(value, np.ndarray):
        return f"ndarray {value.dtype}{list(value.shape)}"
    return type(value).__name__

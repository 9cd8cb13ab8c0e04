"""conditional: one of several computations, chosen by an index or a predicate.

Semantics: XLA's Conditional. Operand 0 chooses, operand i + 1 is the input of branch i; a
predicate picks branch 0 when true, an index out of range picks the last branch.
"""

import functools
from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.signature import check_takes, listed
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import ProgramShape, Shape


def infer_conditional(operands: Sequence[Shape], called: Sequence[ProgramShape]) -> Shape:
    """The shape all branches give; ShapeError when they differ or do not take their inputs."""
    if not operands or not called or len(operands) != len(called) + 1:
        raise ShapeError(
            f"the operands must be a choice and one input per branch, got {listed(operands)} for "
            f"{len(called)} branches"
        )
    choice, *inputs = operands
    if not choice.is_scalar or choice.element_type not in (ElementType.PRED, ElementType.S32):
        raise ShapeError(f"the choice must be pred[] or s32[], got {choice}")
    if choice.element_type is ElementType.PRED and len(called) != 2:
        raise ShapeError(f"a pred[] chooses between 2 branches, got {len(called)}")
    for number, (branch, argument) in enumerate(zip(called, inputs, strict=True)):
        check_takes(f"computation of branch {number}", branch, (argument,))
        if not branch.result.compatible(called[0].result):
            raise ShapeError(
                f"all branches must give one shape, got branch 0 {called[0]} and branch {number} "
                f"{branch}"
            )
    results = [branch.result.without_layout() for branch in called]
    return functools.reduce(rules.as_dynamic, results)

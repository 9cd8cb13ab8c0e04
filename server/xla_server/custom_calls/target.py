"""A target of custom calls, and the check of a declared shape against its rule."""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

from xla_contract.errors import ShapeError, UnimplementedError
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Evaluator

Check: TypeAlias = Callable[[HloInstruction], None]
"""Raises InvalidArgumentError (ShapeError) or UnimplementedError for calls that cannot be run."""


def accept(instruction: HloInstruction) -> None:
    """Accept any shapes and attributes."""


@dataclasses.dataclass(frozen=True, slots=True)
class CustomCallTarget:
    """A function that programs may call.

    `check` runs when a program is compiled, `evaluate` when it runs, with shapes and attributes
    that `check` accepted. Arrays are logical, whatever layouts the program states.
    """

    name: str
    evaluate: Evaluator
    check: Check = accept


def require_no_operands(instruction: HloInstruction) -> None:
    """Raise ShapeError if the instruction has operands."""
    if instruction.operands:
        raise ShapeError(f"the target takes no values, got {len(instruction.operands)}")


def require_result(instruction: HloInstruction, wanted: Shape) -> None:
    """Raise ShapeError unless the instruction declares the shape that the target gives."""
    if not instruction.shape.compatible(wanted):
        raise ShapeError(
            "the declared shape must be what the target gives, got "
            f"{instruction.shape.without_layout()} declared and {wanted} given"
        )


def static_operands(instruction: HloInstruction) -> list[Shape]:
    """Return the operands' shapes without layouts.

    Raises UnimplementedError if an operand or the result has a dynamic dimension.
    """
    for shape in (instruction.shape, *(operand.shape for operand in instruction.operands)):
        if not shape.is_static:
            raise UnimplementedError(
                f"custom calls take and give arrays of one size only, got {shape.without_layout()}"
            )
    return [operand.shape.without_layout() for operand in instruction.operands]

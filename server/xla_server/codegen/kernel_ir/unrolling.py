"""Unrolling: short loops, such as those over a window, become copies of their bodies.

LLVM's own heuristics unroll far more, which took half of all compile time and made hardly a kernel
faster.
"""

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

from xla_server.codegen.kernel_ir.expressions import known
from xla_server.codegen.kernel_ir.statements import Call, For, If, Statement, While, blocks_of
from xla_server.target.capability import Capability

MAX_COPIES = 64
"""Copies of statements that nested loops may become: a window of eight by eight."""

LOOP_COPIES = 6
"""Copies that a loop counts for which is not unrolled itself: a window of three by three has one
for each of its elements."""

MAX_LOOP_STATEMENTS = 8
"""Statements of a loop that is copied: copies of longer ones take more time than they save."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoopShape:
    """A loop as far as unrolling goes: its iterations, if they are known, and what is inside."""

    iterations: int | None
    body: "Sequence[Shape]"

    @property
    def is_short(self) -> bool:
        """Return whether the loop has few iterations."""
        return self.iterations is not None and self.iterations <= Capability.MAX_UNROLLED_ITERATIONS


@dataclasses.dataclass(frozen=True, slots=True)
class BranchShape:
    """Statements that are executed under a condition."""

    body: "Sequence[Shape]"


Shape: TypeAlias = LoopShape | BranchShape | None
"""A loop, a branch, or any other statement."""


def is_unrolled(loop: For) -> bool:
    """Return whether a loop is unrolled. One that calls routines is not."""
    shape = _shape_of(loop)
    assert isinstance(shape, LoopShape)
    return has_short_copies(shape) and not _has_calls(loop.body)


def _shape_of(statement: Statement) -> Shape:
    match statement:
        case For(body=body):
            return LoopShape(constant_iterations(statement), [_shape_of(each) for each in body])
        case While(body=body):
            return LoopShape(None, [_shape_of(each) for each in body])
        case If():
            return BranchShape([_shape_of(each) for each in blocks_of(statement)])
    return None


def _has_calls(statements: Sequence[Statement]) -> bool:
    return any(
        (isinstance(each, Call) and not each.is_inlined) or _has_calls(blocks_of(each))
        for each in statements
    )


def constant_iterations(loop: For) -> int | None:
    """Return the number of iterations of a loop; None if its bounds are not known."""
    low, high = known(loop.low), known(loop.high)
    return None if low is None or high is None else len(range(low, high, loop.step))


def has_short_copies(loop: LoopShape) -> bool:
    """Return whether a loop has few iterations, and makes few copies of what is inside."""
    return loop.is_short and _copies([loop]) <= MAX_COPIES


def _copies(statements: Sequence[Shape]) -> int:
    """Return how often the innermost of statements is there when short loops are unrolled."""
    most = 1
    for shape in statements:
        if isinstance(shape, BranchShape):
            most = max(most, _copies(shape.body))
        elif shape is not None and shape.is_short:
            most = max(most, (shape.iterations or 0) * _copies(shape.body))
        elif shape is not None:
            is_worth_it = len(shape.body) <= MAX_LOOP_STATEMENTS and not _has_loops(shape.body)
            most = max(most, LOOP_COPIES if is_worth_it else MAX_COPIES)
    return most


def _has_loops(statements: Sequence[Shape]) -> bool:
    """Return whether loops remain; what is around those that they are in takes no time."""
    return any(
        shape is not None
        and ((isinstance(shape, LoopShape) and not shape.is_short) or _has_loops(shape.body))
        for shape in statements
    )

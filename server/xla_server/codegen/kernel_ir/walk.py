"""The one traversal of the loop IR, which analyses use."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.expressions import Expression, operands_of

Path: TypeAlias = tuple[stmt.Statement, ...]
"""The statements around a statement, outermost first."""


def walk(
    statements: Sequence[stmt.Statement], path: Path = ()
) -> Iterator[tuple[stmt.Statement, Path]]:
    """Yield each statement, in the order of the source, with the statements around it."""
    for statement in statements:
        yield statement, path
        yield from walk(stmt.blocks_of(statement), (*path, statement))


def read_by(statement: stmt.Statement) -> Iterator[Expression]:
    """Yield each expression that a statement itself evaluates, with those inside of it."""
    return within(*stmt.expressions_of(statement))


def within(*expressions: Expression) -> Iterator[Expression]:
    """Yield expressions, each with those inside of it, in the order of the source."""
    waiting = list(reversed(expressions))
    while waiting:
        expression = waiting.pop()
        yield expression
        waiting += reversed(operands_of(expression))


def meets(part: stmt.ParallelFor) -> bool:
    """Return whether the work items of a parallel loop exchange values or wait for each other."""
    return any(isinstance(each, stmt.Shuffle | stmt.Barrier) for each, _ in walk(part.body))

"""Simplification of finished kernels: dead statements are dropped.

Instructions are simplified as they are made (`expressions.simplified`, by `integer_rules`).
"""

import dataclasses
from collections.abc import Sequence

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.unrolling import constant_iterations
from xla_server.codegen.kernel_ir.walk import read_by

Block = tuple[stmt.Statement, ...]


def simplify(kernel: Kernel) -> Kernel:
    """Return an equivalent kernel without dead statements.

    It is the same object if there are none, as for each simplified kernel.
    """
    body = _Simplifier().block(kernel.body)
    return kernel if body is kernel.body else dataclasses.replace(kernel, body=body)


class _Simplifier:
    """Visits statements backwards, so that all uses of a value come before its let."""

    def __init__(self) -> None:
        self._used: set[ir.Expression] = set()

    def block(self, statements: Block) -> Block:
        """Return the statements of one level; the same object if nothing changes."""
        left: list[stmt.Statement] = []
        for statement in reversed(statements):
            found = self._statement(statement)
            for each in found:
                self._used.update(n for n in read_by(each) if isinstance(n, ir.Value))
            left += reversed(found)
        left.reverse()
        return statements if _are_same(left, statements) else tuple(left)

    def _statement(self, statement: stmt.Statement) -> Sequence[stmt.Statement]:
        """Return the statements that replace a statement: none if it is dead."""
        match statement:
            case stmt.Let(value=value) if value not in self._used:
                return ()
            case stmt.If(test=ir.Const(parts=(number,))):
                return self.block(statement.body if number else statement.orelse)
            case stmt.If():
                orelse, body = self.block(statement.orelse), self.block(statement.body)
                if body is statement.body and orelse is statement.orelse:
                    return (statement,) if body or orelse else ()
                changed = dataclasses.replace(statement, body=body, orelse=orelse)
                return (changed,) if body or orelse else ()
            case stmt.While(test=ir.Const(parts=(0,))):
                return ()
            case stmt.For() if constant_iterations(statement) == 0:
                return ()
            case stmt.For():
                body = self.block(statement.body)
                return (self._with(statement, body),) if body else ()
            case stmt.While() | stmt.ParallelFor():
                return (self._with(statement, self.block(statement.body)),)
        return (statement,)

    def _with(
        self, statement: stmt.For | stmt.While | stmt.ParallelFor, body: Block
    ) -> stmt.Statement:
        is_same = body is statement.body
        return statement if is_same else dataclasses.replace(statement, body=body)


def _are_same(left: Sequence[stmt.Statement], right: Sequence[stmt.Statement]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))

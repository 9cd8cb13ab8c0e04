"""The direct compiler's expressions."""

import abc
import ast
import builtins
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from xla_server.codegen.compiler.blocks import BlockWriter
from xla_server.codegen.compiler.direct_values import (
    BIT,
    BUILT_IN,
    Typed,
    UnsupportedError,
    binary,
    compare,
    constant,
    is_known,
    joined,
    truth,
    whole,
    widened,
)
from xla_server.codegen.instructions.instruction import Instruction


class Expressions(BlockWriter, abc.ABC):
    """Emitter of expressions at a builder's position. Subclasses resolve the names."""

    @abc.abstractmethod
    def _named(self, name: str) -> Typed:
        """The value of a name."""

    @abc.abstractmethod
    def _called(self, name: str) -> Any:
        """Return the callee of a name."""

    @abc.abstractmethod
    def _expanded(self, function: Any, given: Sequence[Typed]) -> Typed:
        """The result of a call of what is no instruction."""

    @abc.abstractmethod
    def _merged(self, values: Sequence[tuple[Any, Typed]]) -> Typed:
        """The value of the block that was run, where all of these lead to here."""

    def _value(self, expression: ast.expr) -> Typed:
        b = self._builder
        match expression:
            case ast.Name(id=name):
                return self._named(name)
            case ast.Constant(value=bool() as fact):
                return constant(fact)
            case ast.Constant(value=int() as number):
                return whole(number)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
                return whole(-number)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return binary(b, ast.Sub(), whole(0), self._value(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return types.boolean, _negated(b, truth(b, self._value(operand)))
            case ast.Call():
                return self._call(expression)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self._value(left), self._value(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return compare(b, op, self._value(left), self._value(right))
            case ast.BoolOp(op=op, values=values):
                return self._shortened(isinstance(op, ast.And), values)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._chosen(test, body, orelse)
            case ast.Tuple(elts=elements):
                return joined([self._value(element) for element in elements])
        raise UnsupportedError(type(expression).__name__)

    def _binary(self, operator: ast.operator, left: Typed, right: Typed) -> Typed:
        return binary(self._builder, operator, left, right)

    def _word(self, expression: ast.expr) -> Any:
        return widened(self._builder, self._value(expression))[1]

    def _shortened(self, is_and: bool, values: Sequence[ast.expr]) -> Typed:
        """Truth values that are asked for until one decides."""
        decided = []
        (end,) = self._blocks("decided")
        for number, expression in enumerate(values):
            kind, bit = self._value(expression)
            if kind != types.boolean:
                raise UnsupportedError("and, or of something else")
            is_last = number == len(values) - 1
            if is_known((kind, bit)) and not is_last and bool(bit.constant) == is_and:
                continue
            decided.append((self._builder.block, (types.boolean, bit)))
            if is_last or is_known((kind, bit)):
                self._go_to(end)
                break
            (more,) = self._blocks("undecided")
            self._go_either_way(bit, *((more, end) if is_and else (end, more)))
            self._go_on_at(more)
        self._go_on_at(end)
        return self._merged(decided)

    def _chosen(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Typed:
        condition = truth(self._builder, self._value(test))
        if is_known((types.boolean, condition)):
            return self._value(body if condition.constant else orelse)
        then, other, after = self._blocks("then", "else", "after")
        self._go_either_way(condition, then, other)
        values = []
        for block, expression in ((then, body), (other, orelse)):
            self._go_on_at(block)
            value = self._value(expression)
            values.append((self._builder.block, value))
            self._go_to(after)
        self._go_on_at(after)
        return self._merged(values)

    def _call(self, call: ast.Call) -> Typed:
        if not isinstance(call.func, ast.Name) or call.keywords:
            raise UnsupportedError("a call of something else")
        called = self._called(call.func.id)
        given = [self._value(argument) for argument in call.args]
        if isinstance(called, Instruction):
            return self._instruct(called, given)
        if called in BUILT_IN:
            return BUILT_IN[called](self._builder, *given)
        return self._expanded(called, given)

    def _built_in(self, name: str) -> Any:
        return getattr(builtins, name, None)


def _negated(builder: Any, bit: Any) -> Any:
    if isinstance(bit, ir.Constant):
        return ir.Constant(BIT, 1 - int(bit.constant))
    return builder.not_(bit)

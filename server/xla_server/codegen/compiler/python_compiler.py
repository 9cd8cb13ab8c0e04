"""A compiler of Python functions to LLVM, in a tenth of the time of numba's front end.

It supports the subset that routines and functions of the runtime use: calls of instructions, whole
numbers, tuples and records of values, loops over ranges, while, if. `UnsupportedError` is raised
for all else. Semantics are numba's: variables keep one type, integers are int64. Calls are inlined
and specialised to constant operands, so that branches that these decide are dropped.
"""

import ast
import builtins
import functools
import linecache
import textwrap
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.dispatcher import Dispatcher

from xla_server.codegen.compiler import python_values as typed
from xla_server.codegen.compiler.blocks import BlockWriter, module_of, write_body
from xla_server.codegen.compiler.python_names import ssa_names, stored_names
from xla_server.codegen.instructions.instruction import Instruction
from xla_server.codegen.kernel_ir.routine import arguments_of

_DEEPEST = 16
"""Largest depth of nested calls; recursion is refused."""

_PARSING = threading.Lock()
"""Python 3.11 counts the depth of syntax trees for all threads together: two concurrent parses may
both raise SystemError.
"""


def _parsed(text: str) -> ast.Module:
    with _PARSING:
        return ast.parse(text)


def function_module(function: Callable[..., None], symbol: str) -> ir.Module:
    """The LLVM module of a function of int64 that returns nothing, as `symbol`.

    It follows numba's convention. Raises UnsupportedError.
    """

    def write(builder: Any, start: Any, args: Sequence[Any]) -> None:
        arguments = [(types.int64, argument) for argument in args]
        if InlinedFunction(builder, {start}, function, arguments).write() is not None:
            raise typed.UnsupportedError("a function with a result")

    return module_of(symbol, len(_Text.of(function).parameters), write)


def write_function(code: Any, function: Callable[..., Any]) -> None:
    """Write the code of a Python function, whose parameters may be records, to an LLVM function.

    Raises UnsupportedError.
    """

    def write(builder: Any, start: Any) -> None:
        words = ((types.int64, argument) for argument in code.args)
        arguments = arguments_of(function, words, typed.joined)
        result = InlinedFunction(builder, {start}, function, arguments).write()
        if result is None:
            builder.ret_void()
        else:
            builder.ret(typed.widened(builder, result)[1])

    write_body(code, write)


def _source(function: Callable[..., Any]) -> str:
    """The source of a function, up to its last line with code.

    `inspect.getsource` finds the end token by token, which takes longer than everything else.
    """
    code = function.__code__
    lines = linecache.getlines(code.co_filename)
    ends = (end for _, end, _, _ in code.co_positions() if end is not None)
    return "".join(lines[code.co_firstlineno - 1 : max(ends, default=0)])


class _Text:
    """A function's source, and the values of its global names and closure."""

    def __init__(self, function: ast.FunctionDef, names: Mapping[str, Any]) -> None:
        taken = function.args
        if taken.vararg or taken.kwarg or taken.kwonlyargs or taken.posonlyargs or taken.defaults:
            raise typed.UnsupportedError("parameters that are not plain")
        self.body = function.body
        self.names = names
        self.parameters = [argument.arg for argument in taken.args]
        stored = stored_names(function)
        self.assigned: Set[str] = stored.keys()
        self.ssa = ssa_names(function, stored)

    @staticmethod
    @functools.cache
    def of(function: Callable[..., Any]) -> "_Text":
        """Return the text of a Python function."""
        try:
            found = _parsed(textwrap.dedent(_source(function))).body[0]
        except (OSError, SyntaxError, IndexError) as error:
            raise typed.UnsupportedError("a function without text") from error
        if not isinstance(found, ast.FunctionDef):
            raise typed.UnsupportedError("a function without a name")
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        return _Text(
            found, {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
        )


class InlinedFunction(BlockWriter):
    """Emitter of a Python function at a builder's position, for these operands.

    `depth` is the number of further nested calls that are allowed.
    """

    def __init__(
        self,
        builder: Any,
        reached: set[Any],
        function: Callable[..., Any],
        arguments: Sequence[typed.Typed],
        depth: int = _DEEPEST,
    ) -> None:
        """Raise UnsupportedError if the function or its operands are."""
        super().__init__(builder, reached)
        self._text = text = _Text.of(function)
        self._depth = depth
        self._known: dict[str, typed.Typed] = {}
        self._variables: dict[str, tuple[Any, Any]] = {}
        self._end = self._blocks("end")[0]
        self._returned: list[tuple[Any, typed.Typed | None]] = []
        if len(arguments) != len(text.parameters):
            raise typed.UnsupportedError("a call with too few or too many operands")
        for name, value in zip(text.parameters, arguments, strict=True):
            # Branches on a constant are decided at compile time.
            if name in text.assigned:
                self._assign(name, value)
            else:
                self._known[name] = value

    def write(self) -> typed.Typed | None:
        """Write the function; return its result, or None. Raises UnsupportedError."""
        self._body(self._text.body)
        if not self._is_unreachable:
            self._return(None)
        self._position_at(self._end)
        results = [value for _, value in self._returned]
        if not any(results):
            return None
        if not all(results):
            raise typed.UnsupportedError("a function that returns something at times")
        return self._merged([(block, value) for block, value in self._returned if value])

    def _body(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self._is_unreachable:
                return
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        b = self._builder
        match statement:
            case ast.Assign(targets=[target], value=value):
                self._assign_to(target, self._value(value))
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                self._assign(name, typed.binary(b, op, self._local(name), self._value(value)))
            case ast.Expr(value=ast.Call() as call):
                self._call(call)
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                pass
            case ast.For(target=ast.Name(id=name), orelse=[]):
                self._for_loop(name, statement)
            case ast.While(test=test, body=body, orelse=[]):
                self._while(lambda: typed.truth(b, self._value(test)), lambda: self._body(body))
            case ast.If(test=test, body=body, orelse=orelse):
                condition = typed.truth(b, self._value(test))
                self._if_else(condition, lambda: self._body(body), lambda: self._body(orelse))
            case ast.Return(value=value):
                self._return(None if value is None else self._value(value))
            case ast.Break():
                self._branch(self._loops[-1][1])
            case ast.Continue():
                self._branch(self._loops[-1][0])
            case _:
                raise typed.UnsupportedError(type(statement).__name__)

    def _for_loop(self, name: str, loop: ast.For) -> None:
        """A loop over a range, whose step is a number in the text."""
        match loop.iter:
            case ast.Call(
                func=ast.Name(id="range"), args=([_] | [_, _] | [_, _, _]) as ends, keywords=[]
            ):
                bounds = slice(*map(self._word, ends))
            case _:
                raise typed.UnsupportedError("a loop over something else")
        low = ir.Constant(typed.WORD, 0) if bounds.start is None else bounds.start
        step = ir.Constant(typed.WORD, 1) if bounds.step is None else bounds.step
        if not isinstance(step, ir.Constant) or not step.constant:
            raise typed.UnsupportedError("a range whose step is not known")

        def inside(number: Any) -> None:
            self._assign(name, (types.int64, number))
            self._body(loop.body)

        self._for(low, bounds.stop, step.constant, inside)

    def _return(self, value: typed.Typed | None) -> None:
        self._returned.append((self._builder.block, value))
        self._branch(self._end)

    def _assign_to(self, target: ast.expr, value: typed.Typed) -> None:
        match target:
            case ast.Name(id=name):
                self._assign(name, value)
            case ast.Tuple(elts=elements):
                values = typed.parts(value)
                if len(values) != len(elements):
                    raise typed.UnsupportedError("as many names as values are needed")
                for element, part in zip(elements, values, strict=True):
                    self._assign_to(element, part)
            case _:
                raise typed.UnsupportedError("an assignment to something else")

    def _assign(self, name: str, value: typed.Typed) -> None:
        kind, code = value
        if name in self._text.ssa:
            self._known[name] = value
            return
        if name not in self._variables:
            if kind not in typed.FORMS:
                raise typed.UnsupportedError(f"a variable of {kind}")
            self._variables[name] = (kind, self._alloca(typed.FORMS[kind]))
        known, pointer = self._variables[name]
        if known == types.int64 and isinstance(kind, types.Integer) and kind.signed:
            kind, code = typed.widened(self._builder, value)
        if known != kind:
            raise typed.UnsupportedError(f"{name} is {known} and {kind}")
        self._builder.store(code, pointer)

    def _local(self, name: str) -> typed.Typed:
        if name in self._known:
            return self._known[name]
        if name not in self._variables:
            raise typed.UnsupportedError(f"{name} has no value yet")
        kind, pointer = self._variables[name]
        return kind, self._builder.load(pointer)

    def _named(self, name: str) -> typed.Typed:
        if name in self._known or name in self._text.assigned:
            return self._local(name)
        return typed.constant(self._text.names.get(name))

    def _value(self, expression: ast.expr) -> typed.Typed:
        b = self._builder
        match expression:
            case ast.Name(id=name):
                return self._named(name)
            case ast.Constant(value=bool() as fact):
                return typed.constant(fact)
            case ast.Constant(value=int() as number):
                return typed.whole(number)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
                return typed.whole(-number)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return typed.binary(b, ast.Sub(), typed.whole(0), self._value(operand))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return types.boolean, typed.negated(b, typed.truth(b, self._value(operand)))
            case ast.Call():
                return self._call(expression)
            case ast.BinOp(left=left, op=op, right=right):
                return typed.binary(b, op, self._value(left), self._value(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return typed.compare(b, op, self._value(left), self._value(right))
            case ast.BoolOp(op=op, values=values):
                return self._short_circuit(isinstance(op, ast.And), values)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._conditional(test, body, orelse)
            case ast.Attribute(value=record, attr=name):
                return typed.field(self._value(record), name)
            case ast.Tuple(elts=elements):
                return typed.joined([self._value(element) for element in elements])
        raise typed.UnsupportedError(type(expression).__name__)

    def _word(self, expression: ast.expr) -> Any:
        return typed.widened(self._builder, self._value(expression))[1]

    def _short_circuit(self, is_and: bool, values: Sequence[ast.expr]) -> typed.Typed:
        """Write a short-circuit `and` or `or`."""
        decided = []
        (end,) = self._blocks("decided")
        for number, expression in enumerate(values):
            kind, bit = self._value(expression)
            if kind != types.boolean:
                raise typed.UnsupportedError("and, or of something else")
            is_last, is_known = number == len(values) - 1, isinstance(bit, ir.Constant)
            if is_known and not is_last and bool(bit.constant) == is_and:
                continue
            decided.append((self._builder.block, (types.boolean, bit)))
            if is_last or is_known:
                self._branch(end)
                break
            (more,) = self._blocks("undecided")
            self._conditional_branch(bit, *((more, end) if is_and else (end, more)))
            self._position_at(more)
        self._position_at(end)
        return self._merged(decided)

    def _conditional(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> typed.Typed:
        values: list[tuple[Any, typed.Typed]] = []

        def write(expression: ast.expr) -> None:
            value = self._value(expression)
            values.append((self._builder.block, value))

        condition = typed.truth(self._builder, self._value(test))
        self._if_else(condition, lambda: write(body), lambda: write(orelse))
        return self._merged(values)

    def _call(self, call: ast.Call) -> typed.Typed:
        if not isinstance(call.func, ast.Name) or call.keywords:
            raise typed.UnsupportedError("a call of something else")
        name = call.func.id
        if name in self._known or name in self._text.assigned:
            raise typed.UnsupportedError("a call of a value")
        called = self._text.names.get(name, getattr(builtins, name, None))
        arguments = [self._value(argument) for argument in call.args]
        if isinstance(called, Instruction):
            return self._call_instruction(called, arguments)
        if called in typed.BUILT_IN:
            return typed.BUILT_IN[called](self._builder, *arguments)
        if not isinstance(called, Dispatcher) or not self._depth:
            raise typed.UnsupportedError("a call of something else")
        depth = self._depth - 1
        inner = InlinedFunction(self._builder, self._reached, called.py_func, arguments, depth)
        return inner.write() or (types.void, None)

    def _merged(self, values: Sequence[tuple[Any, typed.Typed]]) -> typed.Typed:
        """Return the value of the block that was executed: a phi node of those of several."""
        if len({kind for _, (kind, _) in values}) > 1:
            raise typed.UnsupportedError("values of several types")
        if len(values) == 1:
            return values[0][1]
        _, (kind, _) = values[0]
        if kind not in typed.FORMS:
            raise typed.UnsupportedError(f"a choice of {kind}")
        phi = self._builder.phi(typed.FORMS[kind])
        for block, (_, code) in values:
            phi.add_incoming(code, block)
        return kind, phi

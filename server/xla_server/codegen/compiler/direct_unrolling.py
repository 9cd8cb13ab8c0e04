"""Which loops are written out, trip by trip: short ones, such as those over a window.

LLVM left to itself would write out far more. That took half of all time that compiling took, and
hardly a kernel ran faster for it.
"""

import ast
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

_MOST_TRIPS = 8
_MOST_COPIES = 64
"""Copies of statements that loops inside of each other may become: a window of eight by eight."""

_LOOP = 6
"""Statements that a loop counts for which is not written out: a window of three by three has one
for each of its elements."""

_LONGEST_LOOP = 8
"""Statements of a loop that is copied: copies of longer ones take more time than they save."""


def is_short(loop: ast.For) -> bool:
    """Whether a loop is to be written out."""
    return _trips(loop) <= _MOST_TRIPS and _copies([loop]) <= _MOST_COPIES


def _copies(statements: Sequence[ast.stmt]) -> int:
    """How often the innermost of statements is there when short loops are written out."""
    most = 1
    for statement in statements:
        match statement:
            case ast.For(body=body) if _trips(statement) <= _MOST_TRIPS:
                most = max(most, _trips(statement) * _copies(body))
            case ast.For(body=body) | ast.While(body=body):
                is_worth_it = len(body) <= _LONGEST_LOOP and not _has_loops(body)
                most = max(most, _LOOP if is_worth_it else _MOST_COPIES)
            case ast.If(body=body, orelse=orelse):
                most = max(most, _copies(body), _copies(orelse))
    return most


def _has_loops(statements: Sequence[ast.stmt]) -> bool:
    """Whether loops stay among statements: what is around those that they are in takes no time."""
    for statement in statements:
        match statement:
            case ast.For(body=body) if _trips(statement) <= _MOST_TRIPS:
                if _has_loops(body):
                    return True
            case ast.For() | ast.While():
                return True
            case ast.If(body=body, orelse=orelse):
                if _has_loops([*body, *orelse]):
                    return True
    return False


def constant_trips(loop: ast.For) -> int | None:
    """Return the number of iterations of a loop; None where the text does not say."""
    match loop.iter:
        case ast.Call(func=ast.Name(id="range"), args=arguments):
            numbers = [
                argument.value
                for argument in arguments
                if isinstance(argument, ast.Constant) and isinstance(argument.value, int)
            ]
            if len(numbers) == len(arguments) and 0 not in numbers[2:]:
                return len(range(*numbers))
    return None


def _trips(loop: ast.For) -> int:
    """Return the number of iterations; more than a short loop has where the text does not say."""
    trips = constant_trips(loop)
    return _MOST_TRIPS + 1 if trips is None else trips


def write_out(back: Any) -> None:
    """Ask for a loop to be written out, by the instruction that goes back to its beginning."""
    name_loop(back, [ir.MetaDataString(back.function.module, "llvm.loop.unroll.full")])


def name_loop(back: Any, wish: Sequence[Any]) -> None:
    """Give a loop a name of its own with a wish, by the instruction that goes back to its start."""
    module = back.function.module
    wished = module.add_metadata(wish)
    # What names a loop is itself the first part of its name; until then the number tells it.
    number = ir.MetaDataString(module, str(len(module.metadata)))
    name = module.add_metadata([number, wished])
    name.operands = (name, wished)
    back.set_metadata("llvm.loop", name)

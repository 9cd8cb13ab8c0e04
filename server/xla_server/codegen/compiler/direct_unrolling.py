"""Unrolling of short loops, by the rule of the loop IR, and LLVM's metadata for it."""

import ast
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from xla_server.codegen.kernel_ir.unrolling import (
    BranchShape,
    LoopShape,
    Shape,
    has_short_copies,
)


def is_short(loop: ast.For) -> bool:
    """Return whether a loop of a function's text is unrolled."""
    shape = _shape(loop)
    assert isinstance(shape, LoopShape)
    return has_short_copies(shape)


def _shape(statement: ast.stmt) -> Shape:
    match statement:
        case ast.For(body=body):
            return LoopShape(constant_trips(statement), [_shape(each) for each in body])
        case ast.While(body=body):
            return LoopShape(None, [_shape(each) for each in body])
        case ast.If(body=body, orelse=orelse):
            return BranchShape([_shape(each) for each in (*body, *orelse)])
    return None


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


def unroll(back: Any) -> None:
    """Mark a loop for full unrolling, by its back edge."""
    name_loop(back, [ir.MetaDataString(back.function.module, "llvm.loop.unroll.full")])


def name_loop(back: Any, wish: Sequence[Any]) -> None:
    """Give a loop a name of its own with a wish, by the instruction that goes back to its start."""
    module = back.function.module
    wished = module.add_metadata(wish)
    # The first operand of a loop's metadata is the node itself; until then a number makes it
    # unique.
    number = ir.MetaDataString(module, str(len(module.metadata)))
    name = module.add_metadata([number, wished])
    name.operands = (name, wished)
    back.set_metadata("llvm.loop", name)

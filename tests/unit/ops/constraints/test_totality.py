"""No check without a case: every raise, and every call of a check, is reached by a broken program.

The checks are found in the source of the rules: `raise` statements, and calls of the functions that
raise. Those that are reached are found in the tracebacks of the cases.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import xla_contract
from tests.unit.ops.constraints.tables import CASES
from xla_contract.errors import XlaError
from xla_contract.types.opcode import Opcode

_CONTRACT = Path(xla_contract.__file__).parent
_FILES = (
    *sorted((_CONTRACT / "ops").rglob("*.py")),
    _CONTRACT / "types/devices/replica_groups.py",
    _CONTRACT / "wire/replica_groups_proto.py",
    _CONTRACT / "types/dimension_numbers.py",
)

Line = tuple[Path, int]


@functools.cache
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in _FILES}


@functools.cache
def _reached() -> tuple[frozenset[Line], frozenset[Line]]:
    """The lines where an error was raised, and all lines on the way there."""
    raised: set[Line] = set()
    passed: set[Line] = set()
    for case in CASES:
        with pytest.raises(XlaError) as caught:
            case.by_rule()
        error: BaseException | None = caught.value
        while isinstance(error, XlaError):
            lines = list(_lines(error))
            passed.update(lines)
            raised.add(lines[-1])
            error = error.__context__
    return frozenset(raised), frozenset(passed)


def _lines(error: BaseException) -> Iterator[Line]:
    step = error.__traceback__
    while step is not None:
        yield Path(step.tb_frame.f_code.co_filename), step.tb_lineno
        step = step.tb_next


def _misses(statements: list[ast.stmt | ast.expr], path: Path, lines: frozenset[Line]) -> list[str]:
    return [
        f"{path.name}:{one.lineno}: {ast.unparse(one)[:90]}"
        for one in statements
        if not any((path, n) in lines for n in range(one.lineno, (one.end_lineno or 0) + 1))
    ]


def test_every_operation_is_broken_somehow() -> None:
    # A tuple takes any number of anything.
    assert {case.opcode for case in CASES} == set(Opcode) - {Opcode.TUPLE}


@pytest.mark.parametrize("kind", ["raise", "check"])
def test_every_raise_and_every_call_of_a_check_is_reached_by_a_case(kind: str) -> None:
    raised, passed = _reached()
    checks = _raising_functions()
    missed: list[str] = []
    for path, tree in _trees().items():
        if kind == "raise":
            found = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
            missed += _misses(found, path, raised)
        else:
            calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
            missed += _misses([c for c in calls if _name(c.func) in checks], path, passed)
    assert not missed, "\n".join(missed)


def _raising_functions() -> frozenset[str]:
    """The names of the functions that raise, or that call one that does."""
    bodies = {
        node.name: node
        for tree in _trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and not node.name.startswith(("decode", "_decode"))
    }
    raising = {
        name
        for name, body in bodies.items()
        if any(isinstance(node, ast.Raise) for node in ast.walk(body))
    }
    while True:
        more = {
            name
            for name, body in bodies.items()
            if name not in raising and _called_names(body) & raising
        }
        if not more:
            return frozenset(raising)
        raising |= more


def _called_names(body: ast.FunctionDef) -> set[str]:
    return {_name(node.func) for node in ast.walk(body) if isinstance(node, ast.Call)}


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""

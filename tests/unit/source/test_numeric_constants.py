"""Every number that a module names has a text that says what it bounds, its unit and its reason."""

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("server/xla_server", "client/xla_client", "protos/xla_contract", "host/xla_host")
ELSEWHERE = (ROOT / "server/xla_server/target", ROOT / "protos/xla_contract/stubs")
"""Fields of tuning records have a test of their own (`tests/unit/target`); stubs are generated."""


def _is_number(value: ast.expr | None) -> bool:
    """Return whether an expression is one number, or is made of numbers and other constants."""
    match value:
        case ast.Constant(value=number):
            return type(number) in (int, float)
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
        case ast.BinOp(left=left, right=right):
            return _is_number(left) or _is_number(right)
        case ast.Tuple(elts=parts):
            return bool(parts) and all(map(_is_number, parts))
    return False


def undocumented(text: str) -> Iterator[str]:
    """Yield the names of a module's numeric constants without a text.

    Constants on lines that follow each other may share one, which comes after the last of them.
    """
    waiting: list[str] = []
    last = 0
    for statement in [*ast.parse(text).body, ast.Pass(lineno=10**9)]:
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if waiting and statement.lineno == last + 1 and is_text:
            waiting = []
        is_assignment = isinstance(statement, ast.Assign | ast.AnnAssign)
        if waiting and (statement.lineno > last + 1 or not is_assignment):
            yield from waiting
            waiting = []
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            last = statement.end_lineno or 0
            targets = (
                [statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets
            )
            if _is_number(statement.value) and "__" not in ast.unparse(targets[0]):
                waiting += [ast.unparse(target) for target in targets]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("A = 1\n", ["A"]),
        ('A = 1\n"""Seconds."""\n', []),
        ('A = 1\n\n"""Seconds."""\n', ["A"]),
        ('A = 1 << 20\nB: int = -2\n"""Bytes, and a place that is none."""\n', []),
        ('A = 1\n\nB = 2\n"""Seconds."""\n', ["A"]),
        ("A = 1\nB = f()\n\nC = (1, 2)\nD = 2 * C[0]\n", ["A", "C", "D"]),
        ("# Seconds.\nA = 1.5\n", ["A"]),
        ("A = True\nB = 'b'\nC = ()\n__version__ = 1\n\n\ndef f():\n    d = 1\n", []),
    ],
)
def test_a_constant_without_a_text_is_found(text: str, names: list[str]) -> None:
    assert list(undocumented(text)) == names


def test_every_numeric_constant_of_a_module_has_a_text() -> None:
    files = itertools.chain.from_iterable((ROOT / each).rglob("*.py") for each in PACKAGES)
    found = {
        f"{file.relative_to(ROOT)}: {name}"
        for file in files
        if not any(file.is_relative_to(folder) for folder in ELSEWHERE)
        for name in undocumented(file.read_text(encoding="utf-8"))
    }
    assert found == set()

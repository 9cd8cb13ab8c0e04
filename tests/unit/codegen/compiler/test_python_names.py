"""Names that are SSA values."""

import ast

import pytest

from xla_server.codegen.compiler.python_names import ssa_names, stored_names


def names_of(body: str) -> frozenset[str]:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    (function,) = ast.parse(f"def function(a, b):\n{lines}").body
    assert isinstance(function, ast.FunctionDef)
    return ssa_names(function, stored_names(function))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = a", {"x"}),
        ("x = a\nx = b", set()),
        ("x = a\nx += b", set()),
        ("for i in range(a):\n    x = i\nf(b)", {"i", "x"}),
        ("for i in range(a):\n    x = i\nf(x)", {"i"}),
        ("for i in range(a):\n    f(x)\n    x = i", {"i"}),
        ("if a:\n    x = b\nf(x)", set()),
        ("while a:\n    x = b\n    f(x)", {"x"}),
        ("x, y = a, b\nf(x, y)", {"x", "y"}),
    ],
)
def test_a_name_is_one_if_it_is_set_once_before_each_use(body: str, expected: set[str]) -> None:
    assert names_of(body) & {"i", "x", "y"} == expected

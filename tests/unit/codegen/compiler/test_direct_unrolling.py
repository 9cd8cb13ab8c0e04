"""Loops that are unrolled."""

import ast

import pytest

from xla_server.codegen.compiler.direct_unrolling import is_short

_WINDOW = """
for i in range(3):
    for j in range(3):
        f(i, j)
"""
_LONG_INSIDE = """
for i in range(3):
    for j in range(1000):
        f(i, j)
"""
_LOOPS_OF_LOOPS_INSIDE = """
for i in range(0, 512, 64):
    for j in range(i, end):
        for k in range(1000):
            f(j, k)
    for k in range(1000):
        g(k)
"""
_SHORT_AROUND_LONG_INSIDE = """
for i in range(2):
    while h():
        for j in range(3):
            for k in range(1000):
                f(j, k)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_WINDOW, True),
        (_LONG_INSIDE, True),
        (_LOOPS_OF_LOOPS_INSIDE, False),
        (_SHORT_AROUND_LONG_INSIDE, False),
        ("for i in range(9): f(i)", False),
        ("for i in range(n): f(i)", False),
    ],
)
def test_loops_around_loops_of_loops_stay(text: str, expected: bool) -> None:
    (loop,) = ast.parse(text).body
    assert isinstance(loop, ast.For)
    assert is_short(loop) is expected

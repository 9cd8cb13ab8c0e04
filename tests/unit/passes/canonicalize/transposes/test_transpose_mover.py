"""Transposes brought together through elementwise operations."""

import pytest

from tests.unit.passes.passing import opcodes, passed, rewritten, stated
from xla_server.passes.canonicalize.transposes.transpose_mover import TransposeMover
from xla_server.passes.simplify.algebraic_simplifier import AlgebraicSimplifier
from xla_server.passes.simplify.cse import CommonSubexpressions
from xla_server.passes.simplify.dead_code import DeadCode

T = "t = f32[4,3,2] transpose(x0), dimensions={2,1,0}"
FIRES = {
    "they cancel": (
        "f32[2,3,4] transpose(m), dimensions={2,1,0}",
        [T, "m = f32[4,3,2] multiply(t, t)"],
        {"multiply": 1},
    ),
    "they meet in one": (
        "f32[3,4,2] transpose(m), dimensions={1,0,2}",
        [T, "m = f32[4,3,2] negate(t)"],
        {"transpose": 1, "negate": 1},
    ),
    "through several operations, past what is repeated": (
        "f32[2,3,4] transpose(c), dimensions={2,1,0}",
        [
            T, "one = f32[] constant(1)", "ones = f32[4,3,2] broadcast(one), dimensions={}",
            "sum = f32[4,3,2] add(t, ones)", "m = f32[4,3,2] multiply(sum, t)",
            "c = f32[4,3,2] maximum(m, sum)",
        ],
        {"constant": 1, "broadcast": 1, "add": 1, "multiply": 1, "maximum": 1},
    ),
    "a chosen element": (
        "f32[2,3,4] transpose(s), dimensions={2,1,0}",
        [
            T, "other = f32[4,3,2] negate(t)",
            "larger = pred[4,3,2] compare(t, other), direction=GT",
            "s = f32[4,3,2] select(larger, t, other)",
        ],
        {"negate": 1, "compare": 1, "select": 1},
    ),
}  # fmt: skip
LEFT = {
    "an array that is not transposed": (
        "f32[2,3,4] transpose(m), dimensions={2,1,0}",
        [T, "m = f32[4,3,2] multiply(t, x1)"],
    ),
    "an operation that another reads": (
        "(f32[2,3,4], f32[4,3,2]) tuple(u, m)",
        [
            T, "m = f32[4,3,2] multiply(t, t)", "u = f32[2,3,4] transpose(m), dimensions={2,1,0}",
        ],
    ),
    "no transpose behind it": (
        "f32[2,3,4] transpose(m), dimensions={2,1,0}",
        ["one = f32[] constant(1)", "ones = f32[4,3,2] broadcast(one), dimensions={}",
         "m = f32[4,3,2] exponential(ones)"],
    ),
}  # fmt: skip
OPERANDS = ["f32[2,3,4]", "f32[4,3,2]"]


@pytest.mark.parametrize("name", FIRES)
def test_they_meet(name: str) -> None:
    root, lines, left = FIRES[name]
    module = stated(OPERANDS, root, *lines)
    passes = TransposeMover(), AlgebraicSimplifier(), CommonSubexpressions(), DeadCode()
    assert opcodes(rewritten(module, *passes)) == left


@pytest.mark.parametrize("name", LEFT)
def test_others_stay(name: str) -> None:
    root, lines = LEFT[name]
    passed(stated(OPERANDS, root, *lines), TransposeMover(), fires=False)

"""Dots whose operands are exchanged instead of their result transposed."""

import pytest

from tests.unit.passes.passing import opcodes, passed, rewritten, stated
from xla_server.passes.canonicalize.dots.transposed_dot import TransposedDot

_DOT = "d = f32[4,6] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
_BATCH = (
    "d = f32[2,4,7,6] dot(x0, x1), lhs_batch_dims={0}, rhs_batch_dims={1}, "
    "lhs_contracting_dims={3}, rhs_contracting_dims={0}"
)


@pytest.mark.parametrize(
    ("parameters", "root", "dot"),
    [
        (["f32[4,5]", "f32[5,6]"], "f32[6,4] transpose(d), dimensions={1,0}", _DOT),
        (["f32[2,4,7,5]", "f32[5,2,6]"], "f32[2,6,4,7] transpose(d), dimensions={0,3,1,2}", _BATCH),
    ],
    ids=["matrices", "batch_of_several_free_dimensions"],
)
def test_operands_are_exchanged(parameters: list[str], root: str, dot: str) -> None:
    module = stated(parameters, root, dot)
    assert opcodes(rewritten(module, TransposedDot(), relative=1e-6)) == {"dot": 1}


@pytest.mark.parametrize(
    ("parameters", "root", "dot"),
    [
        (
            ["f32[4,5]", "f32[5,6]"],
            "(f32[4,6], f32[6,4]) tuple(d, t)",
            [_DOT, "t = f32[6,4] transpose(d), dimensions={1,0}"],
        ),
        (
            ["f32[2,4,7,5]", "f32[5,2,6]"],
            "f32[2,4,6,7] transpose(d), dimensions={0,1,3,2}",
            [_BATCH],
        ),
    ],
    ids=["read_untransposed_too", "moved_in_another_way"],
)
def test_is_left(parameters: list[str], root: str, dot: list[str]) -> None:
    passed(stated(parameters, root, *dot), TransposedDot(), fires=False)

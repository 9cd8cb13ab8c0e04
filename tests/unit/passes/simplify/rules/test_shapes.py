"""Rules of the algebraic simplifier on operations that move elements."""

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.passing import assert_kept, opcodes, passed, rewritten, stated
from xla_server.passes.framework.fixpoint import Fixpoint
from xla_server.passes.simplify import lifting
from xla_server.passes.simplify.algebraic_simplifier import AlgebraicSimplifier

SIMPLIFY = Fixpoint("simplify", (AlgebraicSimplifier(),))

X = "f32[4,6]"

FIRES: tuple[tuple[Any, ...], ...] = (
    ({"reshape": 1}, [X], "f32[2,12] reshape(r)", "r = f32[24] reshape(x0)"),
    ({}, [X], "f32[4,6] reshape(r)", "r = f32[24] reshape(x0)"),
    (
        {"broadcast": 1},
        ["f32[]"],
        "f32[24] reshape(b)",
        "b = f32[4,6] broadcast(x0), dimensions={}",
    ),
    (
        {"transpose": 1},
        ["f32[2,3,4]"],
        "f32[4,2,3] transpose(t), dimensions={2,1,0}",
        "t = f32[3,2,4] transpose(x0), dimensions={1,0,2}",
    ),
    (
        {},
        ["f32[2,3,4]"],
        "f32[2,3,4] transpose(t), dimensions={1,0,2}",
        "t = f32[3,2,4] transpose(x0), dimensions={1,0,2}",
    ),
    ({"reshape": 1}, ["f32[2,1,4]"], "f32[1,2,4] transpose(x0), dimensions={1,0,2}"),
    (
        {"broadcast": 1},
        ["f32[6]"],
        "f32[6,4] transpose(b), dimensions={1,0}",
        "b = f32[4,6] broadcast(x0), dimensions={1}",
    ),
    (
        {"broadcast": 1},
        ["f32[6]"],
        "f32[2,4,6] broadcast(b), dimensions={1,2}",
        "b = f32[4,6] broadcast(x0), dimensions={1}",
    ),
    ({}, [X], "f32[4,6] broadcast(x0), dimensions={0,1}"),
    ({"transpose": 1}, [X], "f32[6,4] broadcast(x0), dimensions={1,0}"),
    ({"reshape": 1}, [X], "f32[4,1,6] broadcast(x0), dimensions={0,2}"),
    ({}, [X], "f32[4,6] copy(x0)"),
    ({}, [X], "f32[4,6] slice(x0), slice={[0:4], [0:6]}"),
    (
        {"slice": 1},
        [X],
        "f32[1,2] slice(s), slice={[1:2], [0:3:2]}",
        "s = f32[2,3] slice(x0), slice={[0:4:2], [1:6:2]}",
    ),
    (
        {"slice": 1},
        [X],
        "f32[4,0] slice(s), slice={[0:4], [1:1]}",
        "s = f32[4,1] slice(x0), slice={[0:4], [5:6:2]}",
    ),
    (
        {"slice": 1},
        [X, X],
        "f32[4,2] slice(c), slice={[0:4], [7:9]}",
        "c = f32[4,12] concatenate(x0, x1), dimensions={1}",
    ),
    (
        {"slice": 1, "broadcast": 1},
        ["f32[6]"],
        "f32[2,3] slice(b), slice={[0:4:2], [1:6:2]}",
        "b = f32[4,6] broadcast(x0), dimensions={1}",
    ),
    (
        {},
        ["s32[]"],
        "s32[] reshape(s)",
        "b = s32[2] broadcast(x0), dimensions={}",
        "s = s32[1] slice(b), slice={[1:2]}",
    ),
    ({}, [X], "f32[4,6] pad(x0, z), padding=0_0x0_0"),
    ({"slice": 1}, [X], "f32[2,5] pad(x0, z), padding=-1_-1x0_-1"),
    ({"slice": 1, "pad": 1, "constant": 1}, [X], "f32[4,6] pad(x0, o), padding=-1_1x0_0"),
    (
        {"broadcast": 1},
        ["f32[]"],
        "f32[6] pad(b, x0), padding=1_1",
        "b = f32[4] broadcast(x0), dimensions={}",
    ),
    ({}, [X], "f32[4,6] concatenate(x0), dimensions={1}"),
    (
        {"concatenate": 1},
        [X, X],
        "f32[4,18] concatenate(c, x0), dimensions={1}",
        "c = f32[4,12] concatenate(x0, x1), dimensions={1}",
    ),
    ({}, [X, "s32[]"], "f32[4,6] dynamic-slice(x0, x1, n), dynamic_slice_sizes={4,6}"),
    (
        {"slice": 1},
        [X],
        "f32[2,3] dynamic-slice(x0, k, n), dynamic_slice_sizes={2,3}",
        "k = s32[] constant(9)",
    ),
    ({"slice": 1}, [X, "s32[]"], "f32[4,3] dynamic-slice(x0, x1, n), dynamic_slice_sizes={4,3}"),
    ({}, [X, X, "s32[]"], "f32[4,6] dynamic-update-slice(x0, x1, x2, n)"),
    (
        {"slice": 1, "reshape": 1},
        [X],
        "f32[6] gather(x0, k), offset_dims={0}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=0, slice_sizes={1,6}",
        "k = s32[1] constant({2})",
    ),
    (
        {"add": 1, "broadcast": 1, "constant": 1},
        [X],
        "f32[4,6] reduce(x0, o), dimensions={}, to_apply=add",
    ),
    (
        {"add": 1, "multiply": 1, "sqrt": 1, "broadcast": 1, "constant": 1},
        [X],
        "f32[4,6] reduce(x0, o), dimensions={}, to_apply=hypot",
    ),
    (
        {"maximum": 1, "broadcast": 1, "constant": 1},
        [X],
        "f32[4,6] reduce-window(x0, o), window={size=1x1}, to_apply=max",
    ),
    (
        # One of the zeros, which make 0 of -0, is left.
        {"broadcast": 2, "reshape": 1, "constant": 1, "add": 1},
        [X],
        "f32[8,18] reduce-window(x0, zero), "
        "window={size=2x3 pad=1_1x2_2 lhs_dilate=2x3}, to_apply=add",
        "zero = f32[] constant(0)",
    ),
    (
        {"broadcast": 2, "reshape": 1, "constant": 1, "add": 1},
        [X],
        "f32[8,18] reduce-window(padded, zero), window={size=2x3 pad=0_0x1_0}, to_apply=add",
        "zero = f32[] constant(0)",
        "padded = f32[9,19] pad(x0, zero), padding=1_1_1x1_2_2",
    ),
)

STAYS: tuple[tuple[Any, ...], ...] = (
    ([X], "f32[24] reshape(x0)"),
    ([X], "f32[6,4] transpose(x0), dimensions={1,0}"),
    (["f32[6]"], "f32[4,6] broadcast(x0), dimensions={1}"),
    (
        [X, X],
        "f32[4,4] slice(c), slice={[0:4], [4:8]}",
        "c = f32[4,12] concatenate(x0, x1), dimensions={1}",
    ),
    ([X], "f32[6,6] pad(x0, z), padding=1_1x0_0"),
    ([X], "f32[4,10] pad(x0, z), padding=0_0x-1_0_1"),
    ([X, X], "f32[4,12] concatenate(x0, x1), dimensions={1}"),
    ([X, "s32[]"], "f32[2,3] dynamic-slice(x0, x1, n), dynamic_slice_sizes={2,3}"),
    (
        [X, "s32[2,1]"],
        "f32[2,2] gather(x0, x1), offset_dims={0}, collapsed_slice_dims={1}, "
        "start_index_map={1}, index_vector_dim=1, slice_sizes={2,1}",
    ),
    (
        [X],
        "f32[2,6] gather(x0, k), offset_dims={1}, collapsed_slice_dims={0}, "
        "start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}",
        "k = s32[2] constant({2, 1})",
    ),
    ([X], "f32[4] reduce(x0, o), dimensions={1}, to_apply=add"),
    ([X], "f32[4,5] reduce-window(x0, o), window={size=1x2}, to_apply=max"),
    (
        [X],
        "f32[4,17] reduce-window(x0, zero), window={size=1x3 pad=0_0x2_1 lhs_dilate=1x3}, "
        "to_apply=add",
        "zero = f32[] constant(0)",
    ),
    (
        [X],
        "f32[8,6] reduce-window(padded, zero), window={size=2x1}, to_apply=add",
        "zero = f32[] constant(-0)",
        "other = f32[] constant(0)",
        "padded = f32[9,6] pad(x0, other), padding=1_1_1x0_0",
    ),
    (
        [X],
        "f32[14,6] reduce-window(padded, zero), window={size=2x1 lhs_dilate=2x1}, to_apply=add",
        "zero = f32[] constant(0)",
        "padded = f32[8,6] pad(x0, zero), padding=2_2x0_0",
    ),
    (
        [X],
        "f32[8,6] reduce-window(x0, o), window={size=2x1 pad=1_1x0_0 lhs_dilate=2x1}, to_apply=mul",
    ),
)


@pytest.mark.parametrize("case", FIRES, ids=str)
def test_fires(case: tuple[Any, ...]) -> None:
    expected, *program = case
    assert opcodes(rewritten(stated(*program), SIMPLIFY)) == expected


@pytest.mark.parametrize("case", STAYS, ids=str)
def test_does_not_fire(case: tuple[Any, ...]) -> None:
    passed(stated(*case), AlgebraicSimplifier(), fires=False)


def test_a_reduction_by_a_long_computation_becomes_a_map() -> None:
    before = stated([X], "f32[4,6] reduce(x0, o), dimensions={}, to_apply=hypot")
    longest, lifting.LONGEST = lifting.LONGEST, 2
    try:
        after = passed(before, SIMPLIFY)
    finally:
        lifting.LONGEST = longest
    assert opcodes(after) == {"map": 1, "broadcast": 1, "constant": 1}
    assert_kept(before, after, [np.ones((4, 6), np.float32)])

"""Collectives of one participant give it its own value, and others are refused."""

import re

import numpy as np
import pytest

from tests.corpus.root_text import run_text
from xla_contract.errors import InvalidArgumentError

X = np.arange(4, dtype=np.float32)
OTHERS = "each id from 0 to 0 once, got {{0,1}}"
PAIRS = "from 0 to 0, got pairs "


@pytest.mark.parametrize(
    "root",
    [
        *(
            f"f32[4] all-reduce(x0), replica_groups={groups}, to_apply=add"
            for groups in ("{}", "{{0}}", "{{0},{1}}", "{{1},{0},{2}}", "[1,1]<=[1]", "[2,1]<=[2]")
        ),
        *(
            f"f32[4] collective-broadcast(x0), replica_groups={groups}"
            for groups in ("{}", "{{0}}", "{{1},{0}}")
        ),
        "f32[4] all-gather(x0), replica_groups={{0}}, dimensions={0}",
        "f32[4] all-to-all(x0), replica_groups={{0}}, dimensions={0}",
        "f32[4] reduce-scatter(x0), replica_groups={{0}}, dimensions={0}, to_apply=add",
        "f32[4] collective-permute(x0), channel_id=1, source_target_pairs={{0,0}}",
    ],
)
def test_alone_an_array_stays(root: str) -> None:
    np.testing.assert_array_equal(run_text(["f32[4]"], root, [X]), X)


@pytest.mark.parametrize(
    "operation",
    [
        "all-reduce(x0, x1), to_apply=add",
        "all-gather(x0, x1), dimensions={0}",
        "collective-broadcast(x0, x1), replica_groups={{0}}",
    ],
)
def test_alone_several_arrays_stay(operation: str) -> None:
    found = run_text(["f32[4]", "f32[2]"], f"(f32[4], f32[2]) {operation}", [X, X[2:]])
    for ours, given in zip(found, (X, X[2:]), strict=True):
        np.testing.assert_array_equal(ours, given)


def test_who_receives_from_nobody_has_zeros() -> None:
    root = "f32[4] collective-permute(x0), channel_id=1, source_target_pairs={}"
    np.testing.assert_array_equal(run_text(["f32[4]"], root, [X]), X * 0)


@pytest.mark.parametrize(
    ("done", "start"),
    [
        ("all-reduce-done", "f32[4] all-reduce-start(x0), replica_groups={{0}}, to_apply=add"),
        ("all-gather-done", "(f32[4], f32[4]) all-gather-start(x0), dimensions={0}"),
        (
            "collective-permute-done",
            "(f32[4], f32[4], u32[], u32[]) collective-permute-start(x0), "
            "source_target_pairs={{0,0}}",
        ),
    ],
)
def test_halves(done: str, start: str) -> None:
    found = run_text(["f32[4]"], f"f32[4] {done}(start)", [X], [f"start = {start}"])
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize(
    ("root", "message"),
    [
        ("f32[4] all-reduce(x0), replica_groups={{0,1}}, to_apply=add", OTHERS),
        (
            "f32[4] all-reduce(x0), replica_groups=[1,4]<=[4], to_apply=add",
            "each id from 0 to 0 once, got",
        ),
        (
            "f32[4] all-reduce(x0), channel_id=1, use_global_device_ids=true, "
            "replica_groups={{1},{0,2}}, to_apply=add",
            "each id from 0 to 0 once, got",
        ),
        ("f32[8] all-gather(x0), dimensions={0}, replica_groups={{0,1}}", OTHERS),
        ("f32[8] all-gather(x0), dimensions={0}, replica_groups={}", "1 parts of dimension 0, got"),
        ("f32[4] all-to-all(x0), dimensions={0}, replica_groups={{0,1}}", OTHERS),
        ("(f32[4], f32[4]) all-to-all(x0, x0), replica_groups={}", "got 2 for a group of 1"),
        (
            "f32[2] reduce-scatter(x0), dimensions={0}, replica_groups={{0,1}}, to_apply=add",
            OTHERS,
        ),
        (
            "f32[2] reduce-scatter(x0), dimensions={0}, replica_groups={}, to_apply=add",
            "1 parts of dimension 0, got 2 of 4",
        ),
        *(
            (f"f32[4] collective-broadcast(x0), replica_groups={groups}", "at most once, got {{1")
            for groups in ("{{1,0}}", "{{1,2}}", "{{1}}")
        ),
        *(
            (f"f32[4] collective-permute(x0), source_target_pairs={pairs}", PAIRS + pairs)
            for pairs in ("{{0,1},{1,0}}", "{{1,0}}", "{{0,1}}", "{{0,0},{1,2}}")
        ),
    ],
)
def test_others_are_refused(root: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^[a-z-]+ %.*{re.escape(message)}"):
        run_text(["f32[4]"], root, [X])

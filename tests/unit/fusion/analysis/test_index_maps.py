"""Evaluations of instructions by one kernel, counted by their indices."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.ir.indices import SIZES, chains, listed
from tests.unit.passes.passing import stated
from xla_server.codegen.trace.graph import Load, Node
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Tracer
from xla_server.fusion.analysis.index_maps import scalars
from xla_server.ir.analysis.affine import Variable, variable

SAME = (
    ("f32[8] add(a, b)", ["a = f32[8] negate(y)", "b = f32[8] abs(y)"]),
    (
        "f32[3] add(a, b)",
        [
            "a = f32[3] slice(y), slice={[2:5]}",
            "half = f32[4] slice(y), slice={[1:5]}",
            "b = f32[3] slice(half), slice={[1:4]}",
        ],
    ),
    (
        "f32[8] add(y, b)",
        ["a = f32[8] reverse(y), dimensions={0}", "b = f32[8] reverse(a), dimensions={0}"],
    ),
    ("f32[8] add(y, b)", ["a = f32[1,8,1] reshape(y)", "b = f32[8] reshape(a)"]),
    ("f32[8] add(y, b)", ["a = f32[2,4] reshape(y)", "b = f32[8] reshape(a)"]),
    (
        "f32[2,2] add(b, d)",
        [
            "a = f32[4,2] reshape(y)",
            "half = f32[2,2] slice(a), slice={[2:4], [0:2]}",
            "b = f32[2,2] reshape(half)",
            "c = f32[2,2,2] reshape(y)",
            "last = f32[1,2,2] slice(c), slice={[1:2], [0:2], [0:2]}",
            "d = f32[2,2] reshape(last)",
        ],
    ),
    (
        "f32[8,3] add(wide, b)",
        [
            "wide = f32[8,3] broadcast(y), dimensions={0}",
            "a = f32[3,8] transpose(wide), dimensions={1,0}",
            "b = f32[8,3] transpose(a), dimensions={1,0}",
        ],
    ),
)

OTHERS = (
    (
        "f32[4] add(a, b)",
        ["a = f32[4] slice(y), slice={[0:4]}", "b = f32[4] slice(y), slice={[1:5]}"],
        2,
    ),
    (
        "f32[4] add(a, b)",
        ["a = f32[4] slice(y), slice={[0:4]}", "b = f32[4] slice(y), slice={[0:8:2]}"],
        2,
    ),
    ("f32[8] add(y, a)", ["a = f32[8] reverse(y), dimensions={0}"], 2),
    ("f32[16] concatenate(y, y), dimensions={0}", [], 2),
    (
        "f32[8] concatenate(c, d), dimensions={0}",
        [
            "a = f32[3] slice(y), slice={[5:8]}",
            "b = f32[5] slice(y), slice={[0:5]}",
            "r = f32[8] concatenate(a, b), dimensions={0}",
            "c = f32[3] slice(r), slice={[5:8]}",
            "d = f32[5] slice(r), slice={[0:5]}",
        ],
        4,
    ),
    (
        "f32[8] subtract(y, wide)",
        [
            "zero = f32[] constant(0)",
            "s = f32[] reduce(y, zero), dimensions={0}, to_apply=add",
            "wide = f32[8] broadcast(s), dimensions={}",
        ],
        2,
    ),
)


def copies_of_y(root: str, before: list[str]) -> int:
    module = stated(["f32[8]"], root, "y = f32[8] multiply(x0, x0)", *before)
    counts = scalars(module.entry).items()
    return next(count for i, count in counts if i.name.split(".")[0] == "y")


@pytest.mark.parametrize("case", SAME, ids=str)
def test_the_same_element_is_computed_once(case: Any) -> None:
    assert copies_of_y(*case) == 1


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_other_elements_are_computed_beside_it(case: Any) -> None:
    root, before, count = case
    assert copies_of_y(root, before) == count


def test_results_of_one_kernel_share_what_they_read() -> None:
    assert copies_of_y("(f32[8], f32[8]) tuple(a, y)", ["a = f32[8] negate(y)"]) == 1


def loads(root: Node) -> int:
    """Count the loads in a scalar graph."""
    seen, waiting = {root}, [root]
    while waiting:
        inputs = set(waiting.pop().inputs()) - seen
        seen |= inputs
        waiting += inputs
    return sum(isinstance(node, Load) for node in seen)


@given(st.data(), SIZES)
def test_kernels_compute_what_is_counted(data: st.DataObject, sizes: list[int]) -> None:
    """The tracer, which makes a node for each index, makes as many of them as were counted."""
    lines, ends = [f"y = f32[{listed(sizes)}] multiply(x0, x0)"], []
    for name in ("a", "b"):
        chain, count = data.draw(chains(sizes, name, "y"))
        last = chain[-1].partition(" ")[0]
        lines += [*chain, f"{name} = f32[{count}] reshape({last})"]
        ends.append(count)
    least = min(ends)
    lines += [f"{name}{name} = f32[{least}] slice({name}), slice={{[0:{least}]}}" for name in "ab"]
    module = stated([f"f32[{listed(sizes)}]"], f"f32[{least}] add(aa, bb)", *lines)
    entry, (y,) = module.entry, (i for i in module.entry.instructions if i.opcode == "multiply")
    index = (variable(Variable(least, "i")),)
    traced = Tracer(RULES, {entry.parameters[0]: 0}).value(entry.root, index)
    assert scalars(entry)[y] == loads(traced)

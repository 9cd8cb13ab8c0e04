"""Looks at the cancellation flag inside of kernels for a GPU: where they are, and what they do."""

import dataclasses

import numpy as np
import pytest

from tests.cuda_twin.device.twin import DEVICE, Twin
from tests.cuda_twin.lowered import compiled, grids
from xla_server.codegen.gpu.emit.emitter import grid_module
from xla_server.codegen.gpu.emit.ptx import PtxCompiler
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.stopping import stoppable
from xla_server.codegen.kernel_ir.analysis.verify import verify
from xla_server.codegen.kernel_ir.expressions import (
    Address,
    Apply,
    Buffer,
    Cell,
    Const,
    Index,
    Load,
    Region,
    Remainder,
    Usage,
    Value,
    condition,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import (
    Accumulate,
    Barrier,
    Break,
    Declare,
    For,
    If,
    Order,
    ParallelFor,
    Shuffle,
    Statement,
    Stop,
    Store,
    While,
)
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.execution.cancellation_flag import STOP
from xla_server.ir.text.parser import parse_module
from xla_server.target.gpu.properties import (
    ACCESS_ADDITIONS,
    COUNTED_LANES,
    ENTRY_WORK,
    UNSEEN_WORK,
)

GIVEN, FLAG, MADE = Buffer(0, Usage.READ), 1, Buffer(2, Usage.WRITE)
ITEM, TURN, INNER = (Value(name, Type.I64) for name in "tni")
SUM = Cell("sum", Type.I32)
LONG = UNSEEN_WORK // ACCESS_ADDITIONS
"""Turns of one access that are as much as a thread does without a look."""

MAX = (1 << 31) - 1
LANE = Index(0, ((ITEM, 1),))


def adding(axis: Value) -> Accumulate:
    """Return a sum of the one element that is given, at an index that a loop seems to change."""
    return Accumulate(SUM, "add", Load(GIVEN, Type.I32, Index(0, ((axis, 0),))), Order.SEQUENTIAL)


ADDS, ADDS_INNER = adding(TURN), adding(INNER)
MEETINGS = {
    1: (),
    32: (Shuffle(Value("other", Type.I32), SUM, 1),),
    64: (Barrier(), Shuffle(Value("other", Type.I32), SUM, 16)),
}


def loop(turns: int, *body: Statement, axis: Value = TURN, low: Index = Index(0)) -> For:  # noqa: B008
    return For(axis, low, Index(turns), body, turns)


def grid(*body: Statement, group: int = 1, items: int = 64) -> GridKernel:
    """Return a kernel whose threads add to their numbers, meet in groups if any, and store sums."""
    start = Declare(SUM, Apply("to_i32", (LANE,), Type.I32))
    end = Store(MADE, Type.I32, LANE, SUM)
    part = ParallelFor(ITEM, items, (start, *body, *MEETINGS[group], end), group=group)
    return GridKernel(Kernel((GIVEN, MADE), (), (part,)), 64)


def watched(given: GridKernel) -> GridKernel:
    found = dataclasses.replace(given, kernel=stoppable(given.kernel, FLAG))
    verify(found.kernel, {0: 4, 1: 8, 2: 4 * given.kernel.items})
    return found


def run(given: GridKernel, flag: int) -> list[int]:
    arrays = [np.int32([1]), np.int64([flag])]
    (found,) = Twin({"k": given}).run("k", arrays, [(np.int32, (given.kernel.items,))])
    return list(map(int, found))


def polls(given: GridKernel) -> list[list[str]]:
    """Return the loops around each look, by their variables."""
    return [
        [each.axis.name for each in path if isinstance(each, For)]
        for statement, path in walk(given.kernel.body)
        if isinstance(statement, Stop)
    ]


def breaks(at: int) -> If:
    return If(condition("eq", TURN, at), (Break(),))


@pytest.mark.parametrize("group", MEETINGS)
@pytest.mark.parametrize(
    ("body", "count", "around"),
    [
        ((loop(LONG, ADDS),), LONG, ["span1"]),
        ((loop(LONG, ADDS, low=Index(9)), loop(9, ADDS_INNER, axis=INNER)), LONG, ["span1"]),
        # The end of the last span is no index of 32 bits.
        ((loop(MAX, ADDS, low=Index(MAX - LONG)),), LONG, ["span1"]),
        # Each turn of the outer loop comes to a look of the inner one.
        ((loop(3, loop(LONG // 2, ADDS_INNER, axis=INNER)),), 3 * (LONG // 2), ["n", "span1"]),
        ((loop(LONG // 8, loop(8, ADDS_INNER, axis=INNER)),), LONG // 8 * 8, ["span1"]),
        ((loop(LONG, breaks(LONG - 9), ADDS),), LONG - 9, ["span1"]),
        ((If(condition("lt", Index(0), Index(1)), (loop(LONG, ADDS),)),), LONG, ["span1"]),
    ],
)
def test_a_thread_of_much_work_looks_in_its_loops(
    body: tuple[Statement, ...], count: int, around: list[str], group: int
) -> None:
    given = grid(*body, group=group)
    found = watched(given)
    if group > 1 and any(isinstance(each, Break) for each, _ in walk(body)):
        # Others go on in the loop.
        assert found == given
        return
    assert polls(found)[0] == around
    assert [each.usage for each in found.kernel.buffers] == [Usage.READ, Usage.WRITE, Usage.FLAG]
    assert run(found, 0) == run(given, 0) == [count + n for n in range(64)]
    # All threads leave, and those of a group together: none misses another at a barrier.
    assert run(found, STOP) == [-1] * 64


@pytest.mark.parametrize("group", [32, 64])
def test_threads_that_meet_leave_together_whichever_of_them_saw_the_flag(group: int) -> None:
    found = watched(grid(loop(LONG, ADDS), group=group)).kernel
    flag, (part,) = Region(Address(found.buffers[-1]), Usage.SCRATCH), found.parts
    sets = If(
        condition("eq", LANE, 40), (Store(flag, Type.I64, Index(0), Const(Type.I64, (STOP,))),)
    )
    part = dataclasses.replace(part, body=(sets, *part.body))
    assert run(GridKernel(dataclasses.replace(found, body=(part,)), 64), 0) == [-1] * 64


@pytest.mark.parametrize(
    "given",
    [
        grid(loop(LONG // 2, ADDS)),
        # Threads of a group have each their number of turns, or only some have a loop.
        grid(For(TURN, LANE, Index(LONG), (ADDS,), LONG), group=64),
        grid(If(condition("lt", Remainder(LANE, 64), 9), (loop(LONG, ADDS),)), group=64),
        watched(grid(loop(LONG, ADDS))),
    ],
)
def test_other_kernels_are_left_as_they_are(given: GridKernel) -> None:
    assert stoppable(given.kernel, FLAG) is given.kernel


@pytest.mark.parametrize("turns", [ENTRY_WORK // 2, LONG])
@pytest.mark.parametrize("group", MEETINGS)
def test_threads_that_wait_for_others_look_before_they_begin(turns: int, group: int) -> None:
    items = COUNTED_LANES * LONG // turns // 64 * 64
    assert polls(watched(grid(loop(turns, ADDS), group=group, items=items + 64)))[0] == []
    for fewer in (
        grid(loop(turns, ADDS), group=group, items=items // 2),
        grid(loop(ENTRY_WORK // 4, ADDS), group=group, items=8 * items),
        grid(loop(turns, breaks(5), ADDS), items=2 * items),
    ):
        assert [] not in polls(watched(fewer))
    assert run(_with_entry(grid(loop(9, ADDS), group=group)), STOP) == [-1] * 64


def _with_entry(given: GridKernel) -> GridKernel:
    (part,), flag = given.kernel.parts, Buffer(FLAG, Usage.FLAG)
    body = (dataclasses.replace(part, body=(Stop(flag), *part.body)),)
    kernel = dataclasses.replace(given.kernel, buffers=(GIVEN, MADE, flag), body=body)
    return dataclasses.replace(given, kernel=kernel)


def test_a_loop_that_ends_in_its_first_span_does_not_look() -> None:
    assert run(watched(grid(loop(LONG, breaks(5), ADDS))), STOP) == [5 + n for n in range(64)]


def test_an_endless_loop_ends_once_the_flag_is_set() -> None:
    flag, going = Buffer(FLAG, Usage.FLAG), Cell("going", Type.B1)
    endless = While(going, (Stop(flag), loop(8, ADDS)), 1)
    given = grid(Declare(going, Const(Type.B1, (1,))), endless)
    kernel = dataclasses.replace(given.kernel, buffers=(GIVEN, MADE, flag))
    assert run(dataclasses.replace(given, kernel=kernel), STOP) == [-1] * 64


@pytest.mark.parametrize("group", MEETINGS)
def test_a_look_is_a_load_that_the_host_may_change(group: int) -> None:
    found = watched(grid(loop(LONG, ADDS), group=group))
    with PtxCompiler(DEVICE) as compiler:
        text = compiler.module(str(grid_module({"k": found}, DEVICE))).ptx.decode()
    assert text.count("ld.relaxed.sys.global.b64") == 1


REDUCED = """HloModule m
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  h = f32[] constant(0.5)
  c = f32[] multiply(a, h)
  ROOT s = f32[] subtract(c, b) }
ENTRY e { x = f32[3,100000] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[3] reduce(x, z), dimensions={1}, to_apply=less }
"""
SCATTERED = """HloModule m
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] subtract(a, b) }
ENTRY e { x = f32[8] parameter(0)
  i = s32[65536,1] parameter(1)
  u = f32[65536] parameter(2)
  ROOT r = f32[8] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=less }
"""


@pytest.mark.parametrize("text", [REDUCED, SCATTERED])
def test_the_kernel_of_long_threads_looks_and_those_before_it_do_not(text: str) -> None:
    *others, last = grids(compiled(parse_module(text)))
    assert len(polls(last)) == 1
    # Numbers of a sort are indices for others, so it goes to its end.
    assert [polls(each) for each in others] == [[]] * len(others)


def test_a_scatter_whose_updates_have_totals_of_parts_does_not_look() -> None:
    added = SCATTERED.replace("subtract", "add")
    found = [polls(each) for each in grids(compiled(parse_module(added)))]
    assert found == [[]] * len(found)

"""The twin itself: it finds what a GPU would not tell."""

import subprocess
import sys

import numpy as np
import pytest

from tests.cuda_twin.device.guarded import Guarded
from tests.cuda_twin.device.twin import Twin
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.kernel_ir.analysis.verify import verify
from xla_server.codegen.kernel_ir.expressions import (
    Buffer,
    Expression,
    Index,
    Load,
    Remainder,
    SharedArray,
    Usage,
    Value,
    condition,
    integer_op,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import (
    Barrier,
    For,
    If,
    Let,
    ParallelFor,
    Statement,
    Store,
)
from xla_server.codegen.kernel_ir.types import Type

ITEM = Value("t", Type.I64)
AT = Index(0, ((ITEM, 1),))


def moving(source: Expression, target: Expression, items: int, bits: int = 32) -> GridKernel:
    """Return the kernel that moves an element from one index to another in each work item."""
    given, made, value = Buffer(0, Usage.READ), Buffer(1, Usage.WRITE), Value("v", Type.F32)
    body = (
        Let(value, Load(given, Type.F32, source)),
        Store(made, Type.F32, target, value),
    )
    return GridKernel(Kernel((given, made), (), (ParallelFor(ITEM, items, body),)), 32, bits)


def launched(grid: GridKernel, count: int) -> list[float]:
    numbers = np.arange(count, dtype=np.float32)
    (found,) = Twin({"k": grid}).run("k", [numbers], [(np.float32, (count,))])
    return list(map(float, found))


@pytest.mark.parametrize("bits", [32, 64])
def test_every_thread_of_every_block_does_its_item(bits: int) -> None:
    back = Index(99, ((ITEM, -1),))
    assert launched(moving(back, AT, 100, bits), 100) == list(range(99, -1, -1))


def test_what_nobody_stores_is_nan() -> None:
    assert np.isnan(launched(moving(AT, AT, 3), 4)).tolist() == [False] * 3 + [True]


def test_a_race_gives_other_results_in_another_order() -> None:
    with pytest.raises(AssertionError, match="buffer 1, backward"):
        launched(moving(AT, integer_op("whole_mod", ITEM, 2), 64), 64)


@pytest.mark.parametrize("index", [Index(5, ((ITEM, 0),)), Index(-1, ((ITEM, 0),))])
def test_a_store_beside_an_array_is_found(index: Expression) -> None:
    with pytest.raises(AssertionError, match="stored around buffer1"):
        launched(moving(AT, index, 1), 5)


TILE = SharedArray("tile", 256)
LANE = Value("l", Type.I64)


def turned(*meeting: Statement) -> GridKernel:
    """Return the kernel that turns 64 elements around in each block, through a shared array."""
    given, made = Buffer(0, Usage.READ), Buffer(1, Usage.WRITE)
    value, found = Value("v", Type.F32), Value("w", Type.F32)
    body = (
        Let(LANE, Remainder(AT, 64)),
        Let(value, Load(given, Type.F32, AT)),
        Store(TILE, Type.F32, LANE, value),
        *meeting,
        Let(found, Load(TILE, Type.F32, Index(63, ((LANE, -1),)))),
        Store(made, Type.F32, AT, found),
    )
    part = ParallelFor(ITEM, 128, body, group=64)
    return GridKernel(Kernel((given, made), (), (part,), shared=(TILE,)), 64)


def test_threads_of_a_block_wait_for_each_other_at_a_barrier() -> None:
    verify(turned(Barrier()).kernel, {0: 512, 1: 512})
    expected = [*range(63, -1, -1), *range(127, 63, -1)]
    assert launched(turned(Barrier()), 128) == expected
    axis = Value("i", Type.I64)
    assert launched(turned(For(axis, Index(0), Index(3), (Barrier(),), 3)), 128) == expected


def test_a_missing_barrier_gives_other_results_in_another_order() -> None:
    with pytest.raises(AssertionError, match="buffer 1, backward"):
        launched(turned(), 128)


def test_a_barrier_that_threads_miss_is_found() -> None:
    few = If(condition("lt", LANE, 60), (Barrier(),))
    with pytest.raises(AssertionError, match="a thread missed a barrier of its block"):
        launched(turned(few), 128)


def test_a_block_finds_nothing_of_another_one_in_shared_arrays() -> None:
    given, made = Buffer(0, Usage.READ), Buffer(1, Usage.WRITE)
    found = Value("w", Type.F32)
    body = (
        Let(LANE, Remainder(AT, 64)),
        Let(found, Load(TILE, Type.F32, LANE)),
        Store(made, Type.F32, AT, found),
        Store(TILE, Type.F32, LANE, Load(given, Type.F32, AT)),
        Barrier(),
    )
    part = ParallelFor(ITEM, 128, body, group=64)
    grid = GridKernel(Kernel((given, made), (), (part,), shared=(TILE,)), 64)
    assert np.isnan(launched(grid, 128)).all()


_BEHIND = """
from tests.cuda_twin.device.test_twin import AT, launched, moving
launched(moving(AT, AT, {items}), 32)
print("done")
"""


@pytest.mark.parametrize(("items", "ends_well"), [(32, True), (33, False)])
def test_an_access_behind_the_last_page_ends_the_process(items: int, ends_well: bool) -> None:
    command = [sys.executable, "-c", _BEHIND.format(items=items)]
    found = subprocess.run(command, capture_output=True, check=False)
    assert (found.stdout == b"done\n") == ends_well
    assert (found.returncode == 0) == ends_well


@pytest.mark.parametrize("size", [0, 1, 16, 4095, 4096, 4097])
def test_guarded_memory_is_aligned_and_of_any_size(size: int) -> None:
    memory = Guarded(size)
    assert memory.address % 16 == 0
    assert memory.bytes.tolist() == [0xFF] * size
    memory.put(np.zeros(size, np.uint8))
    assert memory.is_intact

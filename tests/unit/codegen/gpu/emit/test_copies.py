"""Copies of unrolled loops: which may be executed side by side, and in which order."""

import dataclasses
import itertools
import re

import pytest

from tests.cuda_twin.device.twin import DEVICE
from tests.unit.codegen.kernel_ir.kernels import READ, SHARED, WRITE, ZERO, parallel
from xla_server.codegen.gpu.emit.copies import is_copied, is_interchangeable, parts_of
from xla_server.codegen.gpu.emit.emitter import grid_module
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.kernel_ir.expressions import (
    Apply,
    Buffer,
    Cell,
    Index,
    Load,
    Usage,
    Value,
    condition,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import (
    Accumulate,
    Barrier,
    Break,
    For,
    If,
    Let,
    Order,
    Set,
    Statement,
    Store,
)
from xla_server.codegen.kernel_ir.types import Type

AXIS, CELL = Value("i", Type.I64), Cell("a", Type.F32)
ELEMENT, DOUBLE = Value("v", Type.F32), Value("w", Type.F32)
LOAD = Let(ELEMENT, Load(READ, Type.F32, AXIS))
ADD = Let(DOUBLE, Apply("add", (ELEMENT, ELEMENT), Type.F32))
STORE = Store(WRITE, Type.F32, AXIS, DOUBLE)
SUM = Accumulate(CELL, "add", ELEMENT, Order.SEQUENTIAL)


def loop_of(*body: Statement) -> For:
    return For(AXIS, Index(0), Index(4), body, 4, unrolled=True)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ((LOAD, ADD, STORE), True),
        ((LOAD, SUM), True),
        ((loop_of(LOAD, If(condition("lt", AXIS, 2), (SUM,))),), True),
        # Neighbouring stores to an array keep their order.
        ((LOAD, ADD, STORE, dataclasses.replace(STORE, index=Index(0))), True),
        ((LOAD, STORE, ADD, dataclasses.replace(STORE, index=Index(0))), False),
        ((LOAD, dataclasses.replace(STORE, guard=condition("lt", AXIS, 2)), STORE), False),
        ((LOAD, If(condition("lt", AXIS, 2), (STORE,)), STORE), False),
        ((LOAD, SUM, Store(WRITE, Type.F32, AXIS, CELL)), False),
        ((Let(DOUBLE, Load(WRITE, Type.F32, AXIS)), STORE), False),
        ((Store(SHARED, Type.F32, AXIS, ZERO), Let(ELEMENT, Load(SHARED, Type.F32, AXIS))), False),
        ((LOAD, Barrier()), False),
        ((Set(CELL, ZERO),), False),
    ],
)
def test_iterations_change_nothing_that_they_read(body: list[Statement], found: bool) -> None:
    assert is_interchangeable(loop_of(*body)) is found


def test_a_loop_that_is_left_is_not_copied() -> None:
    assert is_copied(loop_of(LOAD))
    assert not is_copied(dataclasses.replace(loop_of(LOAD), unrolled=False))
    assert not is_copied(loop_of(If(condition("lt", AXIS, 2), (Break(),))))
    assert not is_copied(dataclasses.replace(loop_of(LOAD), high=AXIS))


def test_loads_begin_a_body_and_stores_end_it() -> None:
    let = Let(Value("at", Type.I64), Index(0, ((AXIS, 1),)))
    guarded = dataclasses.replace(STORE, guard=condition("lt", AXIS, 2))
    assert parts_of((let, LOAD, ADD, LOAD, STORE, STORE)) == (
        [let, LOAD],
        (ADD, LOAD),
        [STORE, STORE],
    )
    assert parts_of((ADD, guarded)) == ([], (ADD, guarded), [])


def test_stores_to_each_of_two_results_follow_each_other() -> None:
    """LLVM makes one of four to a result unless those to the other are between them."""
    first, second = (Buffer(number, Usage.WRITE) for number in (1, 2))
    stores = (dataclasses.replace(STORE, memory=each) for each in (first, second))
    part = parallel(loop_of(LOAD, ADD, *stores), items=1)
    kernel = Kernel((READ, first, second), (), (part,))
    text = str(grid_module({"k": GridKernel(kernel)}, DEVICE))
    bases = re.findall(r"inttoptr i64 (\S+) to", text)
    assert [len(list(each)) for _, each in itertools.groupby(bases)] == [4, 4, 4]


def test_stores_to_one_array_keep_their_order() -> None:
    """The last of several stores to an element remains the last one."""
    twice = For(AXIS, Index(0), Index(2), (LOAD, ADD, STORE, at_next(STORE)), 2, unrolled=True)
    kernel = Kernel((READ, WRITE), (), (parallel(twice, items=1),))
    text = str(grid_module({"k": GridKernel(kernel)}, DEVICE))
    sums = re.findall(r"(\S+) = fadd", text)
    assert len(sums) == 2
    assert re.findall(r"store float (\S+),", text) == [sums[0], sums[0], sums[1], sums[1]]


def at_next(store: Store) -> Store:
    return dataclasses.replace(store, index=Index(1, ((AXIS, 1),)))


def test_stores_of_copies_follow_their_values() -> None:
    """LLVM makes one of four stores in one block, and functions inlined into a body have others."""
    part = parallel(loop_of(LOAD, ADD, STORE), items=1)
    text = str(grid_module({"k": GridKernel(Kernel((READ, WRITE), (), (part,)))}, DEVICE))
    found = re.findall(r"(load|fadd|store) ", text)
    assert [each for each, _ in itertools.groupby(found)] == ["load", "fadd", "store"]
    assert len(found) == 12

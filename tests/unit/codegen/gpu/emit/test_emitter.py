"""The LLVM text of kernels for a GPU, and the kernels that have none."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cuda_twin.device.twin import DEVICE
from tests.cuda_twin.programs import kernels_of
from tests.unit.codegen.compiled import built
from tests.unit.codegen.trace import elementwise_rows as rows
from xla_client import Op, ops
from xla_contract.types.element_type import ElementType as E
from xla_server.codegen.gpu.emit.emitter import DATA_LAYOUT, TRIPLE, grid_module
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.kernel_ir.expressions import (
    Apply,
    Buffer,
    Const,
    Index,
    Load,
    SharedArray,
    StackArray,
    Usage,
    Value,
    condition,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import (
    Barrier,
    Break,
    For,
    If,
    Let,
    ParallelFor,
    Shuffle,
    Statement,
)
from xla_server.codegen.kernel_ir.types import Type

SUM = kernels_of(built(lambda x, y: x + y, [np.zeros(1000, np.float32)] * 2))


def text_of(grid: GridKernel) -> str:
    return str(grid_module({"k": grid}, DEVICE))


def part_of(group: int, items: int = 8, *body: Statement, first: int = 0) -> ParallelFor:
    return ParallelFor(Value("t", Type.I64), items, body, first, group=group)


def test_all_threads_of_a_block_come_to_a_barrier() -> None:
    tile = SharedArray("tile", 64)
    text = text_of(GridKernel(Kernel((), (), (part_of(64, 128, Barrier()),), shared=(tile,)), 64))
    assert '@"k_tile" = internal addrspace(3) global [64 x i8] undef, align 16' in text
    assert text.count('call void @"llvm.nvvm.barrier.cta.sync.aligned.all"(i32 0)') == 1
    assert "icmp" not in text


def test_a_kernel_has_pointers_to_global_memory_and_a_number_of_threads() -> None:
    text = str(grid_module(SUM, DEVICE))
    assert f'target triple = "{TRIPLE}"' in text
    assert f'target datalayout = "{DATA_LAYOUT}"' in text
    (head,) = re.findall(r"^define .*$", text, re.MULTILINE)
    assert head.startswith('define ptx_kernel void @"k0"(')
    assert head.count("addrspace(1)* align 16") == 3
    assert head.endswith('"nvvm.maxntid"="256"')


@pytest.mark.parametrize(
    ("function", "dtype", "limits"),
    [
        (ops.exp, np.complex64, '"nvvm.maxntid"="256" "nvvm.minctasm"="2"'),
        # The sum is one of F32.
        (lambda x: x + x, np.complex64, '"nvvm.maxntid"="256"'),
        (ops.exp, np.float64, '"nvvm.maxntid"="256"'),
    ],
)
def test_a_kernel_that_computes_in_c128_says_how_many_blocks_it_needs(
    function: Callable[[Op], Op], dtype: Any, limits: str
) -> None:
    text = str(grid_module(kernels_of(built(function, [np.zeros(8, dtype)])), DEVICE))
    (head,) = re.findall(r"^define ptx_kernel .*$", text, re.MULTILINE)
    assert head.endswith(f") {limits}")


def test_a_module_has_several_kernels_and_each_function_once() -> None:
    function = [np.zeros(8, np.float32)]
    both = kernels_of(built(lambda x: ops.tuple([ops.exp(x), ops.exp(-x)], x.builder), function))
    text = str(grid_module(both, DEVICE))
    assert text.count("define ptx_kernel") == 2
    assert text.count('define internal float @"xla_exp_f32"') == 1


@pytest.mark.parametrize("kind", [E.PRED, E.BF16, E.C64], ids=lambda kind: kind.text)
def test_every_access_to_buffers_says_its_space_and_alignment(kind: E) -> None:
    program = rows.every_operation(kind)
    module = built(
        lambda *p: ops.tuple([row(*p) for row in program.rows.values()], p[0].builder),
        program.arrays,
    )
    text = str(grid_module(kernels_of(module), DEVICE))
    found = re.findall(r"^  .*(?:load|store) .*addrspace\(1\).*$", text, re.MULTILINE)
    assert found
    assert all(re.search(r", align \d+", line) for line in found)
    # Other memory is variables, and constants of functions.
    pointers = re.findall(r"inttoptr i64 \S+ to (.*)$", text, re.MULTILINE)
    assert pointers
    assert all(pointer.endswith("addrspace(1)*") for pointer in pointers)


def test_copies_of_an_unrolled_loop_have_constant_numbers() -> None:
    text = str(grid_module(SUM, DEVICE))
    assert text.count("load float") == 8
    assert "br label" in text
    assert "llvm.loop" not in text


def test_a_loop_that_is_left_early_stays_a_loop() -> None:
    item, axis = Value("t", Type.I64), Value("i", Type.I64)
    leave = If(condition("eq", axis, 2), (Break(),))
    loop = For(axis, Index(0), Index(4), (leave,), 4, unrolled=True)
    grid = GridKernel(Kernel((), (), (ParallelFor(item, 8, (loop,)),)))
    assert "llvm.loop.unroll.full" in text_of(grid)


@pytest.mark.parametrize("bits", [32, 64])
def test_indices_are_computed_in_so_many_bits(bits: int) -> None:
    item, buffer = Value("t", Type.I64), Buffer(0, Usage.READ)
    load = Let(Value("v", Type.F32), Load(buffer, Type.F32, Index(5, ((item, 3),))))
    text = text_of(GridKernel(Kernel((buffer,), (), (ParallelFor(item, 8, (load,)),)), 256, bits))
    assert re.search(rf"mul i{bits} \S+, 3$", text, re.MULTILINE)
    assert ("sext i32" in text) == (bits == 32)
    assert re.search(r"add nsw i64 \S+, 5$", text, re.MULTILINE)


def test_sums_have_one_order() -> None:
    add = Apply("add_in_any_order", (Const(Type.F32, (0,)),) * 2, Type.F32)
    part = ParallelFor(Value("t", Type.I64), 8, (Let(Value("v", Type.F32), add),))
    with pytest.raises(ValueError, match="must call instructions, got add_in_any_order"):
        text_of(GridKernel(Kernel((), (), (part,))))


def test_what_kernels_of_a_gpu_do_not_have_is_refused() -> None:
    stack = GridKernel(Kernel((), (StackArray("row0", 64),), ()))
    with pytest.raises(ValueError, match="no arrays on the stack, got row0"):
        text_of(stack)
    two = Kernel((), (), (part_of(2),))
    for grid in (GridKernel(two), GridKernel(Kernel((), (), ()), threads=33)):
        with pytest.raises(ValueError, match="in groups of 32 or of a block"):
            text_of(grid)
    with pytest.raises(ValueError, match="begin with a whole group"):
        text_of(GridKernel(Kernel((), (), (part_of(1, 8), part_of(32, 32, first=8)))))
    shared = Kernel((), (), (part_of(32, 64),), shared=(SharedArray("s", 64),))
    with pytest.raises(ValueError, match="must belong to blocks of 256, got 32"):
        text_of(GridKernel(shared))
    exchange = Shuffle(Value("v", Type.F32), Const(Type.F32, (0,)), 32)
    block = Kernel((), (), (part_of(64, 64, exchange),))
    with pytest.raises(ValueError, match="threads of a warp alone exchange values, got 32"):
        text_of(GridKernel(block, 64))
    for part in (
        ParallelFor(None, 8, (), is_range=True),
        ParallelFor(Value("t", Type.I64), 8, (), step=2),
    ):
        with pytest.raises(ValueError, match="one work item for each thread"):
            text_of(GridKernel(Kernel((), (), (part,))))

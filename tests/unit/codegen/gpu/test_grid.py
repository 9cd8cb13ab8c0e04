import dataclasses

import pytest

from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import Value
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import ParallelFor
from xla_server.codegen.kernel_ir.types import Type


def kernel(items: int) -> Kernel:
    return Kernel((), (), (ParallelFor(Value("t", Type.I64), items, ()),))


@pytest.mark.parametrize(("items", "blocks"), [(1, 1), (256, 1), (257, 2), (1 << 30, 1 << 22)])
def test_the_last_block_may_have_threads_without_work(items: int, blocks: int) -> None:
    assert GridKernel(kernel(items)).blocks == blocks


@pytest.mark.parametrize("threads", [0, 1025])
def test_a_block_has_at_most_1024_threads(threads: int) -> None:
    with pytest.raises(ValueError, match=f"must have 1 to 1024 threads, got {threads}"):
        GridKernel(kernel(1), threads)


def test_a_grid_has_at_most_so_many_blocks() -> None:
    GridKernel(kernel((1 << 31) - 1), 1)
    with pytest.raises(ValueError, match="at most 2147483647 blocks, got 2147483648"):
        GridKernel(kernel(1 << 31), 1)


@pytest.mark.parametrize(("elements", "bits"), [(0, 32), ((1 << 31) - 1, 32), (1 << 31, 64)])
def test_indices_are_short_where_that_holds_all(elements: int, bits: int) -> None:
    assert index_bits(elements) == bits


def test_a_kernel_reads_as_numba_source_with_its_launch() -> None:
    grid = GridKernel(kernel(300))
    assert grid.text == f"# 2 blocks of 256 threads, indices of 32 bits\n{kernel(300).text}"


def test_what_machine_code_depends_on_makes_kernels_different() -> None:
    one = GridKernel(kernel(300))
    assert one.key == GridKernel(kernel(300)).key
    others = [
        GridKernel(kernel(301)),
        GridKernel(kernel(300), threads=128),
        GridKernel(kernel(300), index_bits=64),
        GridKernel(dataclasses.replace(kernel(300), effort=Effort.PLAIN)),
    ]
    assert len({one.key, *(other.key for other in others)}) == 5

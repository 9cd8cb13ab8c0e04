import pytest

from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.kernel_ir.expressions import Value
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Part
from xla_server.codegen.kernel_ir.types import Type


def kernel(items: int) -> Kernel:
    return Kernel((), (), (Part(Value("t", Type.I64), items, ()),))


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

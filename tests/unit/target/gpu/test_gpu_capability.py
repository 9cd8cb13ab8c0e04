"""Kernels and libraries of GPUs, and parts of reductions, which depend on sizes alone."""

import pytest

from xla_contract.ops.contraction.dot import ProductSizes
from xla_contract.types.element_type import ElementType as E
from xla_server.target.gpu.properties import GPUS, MAX_BLOCK_ROW, MAX_WARP_ROW
from xla_server.target.machine import Machine
from xla_server.target.target import Target

TARGET = Target.of(Machine.cuda("sm_90"))
GPU = TARGET.capability


def parts(outer: int, length: int, inner: int) -> int:
    return GPU.reduction_parts(outer, length, inner, TARGET.tuning.reductions)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((1, 16 * MAX_WARP_ROW, 1), 1),
        ((1, 1 << 20, 1), 256),
        ((1, 3 * (1 << 18), 1), 192),
        ((1, 1_000_003, 1), 244),  # a prime number: the last part is what is left
        ((8, 1 << 16, 1), 16),
        ((64, 1 << 16, 1), 1),  # blocks enough
        ((512, MAX_BLOCK_ROW, 1), 1),
        ((512, 2 * MAX_BLOCK_ROW, 1), 32),
        ((1, 1 << 16, 64), 128),
        ((1, 1 << 16, 1 << 15), 1),  # columns enough
        ((1, 1 << 12, 64), 1),  # columns too short
    ],
)
def test_reductions_are_cut_where_they_are_few(sizes: tuple[int, int, int], expected: int) -> None:
    assert parts(*sizes) == expected


@pytest.mark.parametrize("name", GPUS)
def test_parts_are_the_same_on_every_gpu(name: str) -> None:
    target = Target.of(Machine.cuda(name))
    reductions = target.tuning.reductions
    assert target.capability.reduction_parts(1, 1 << 22, 1, reductions) == parts(1, 1 << 22, 1)


@pytest.mark.parametrize(
    ("operand", "result", "expected"),
    [
        (E.F32, E.F32, True),
        (E.C64, E.C64, True),
        (E.BF16, E.F32, True),
        (E.F16, E.F16, True),
        (E.F32, E.F16, False),
        (E.S32, E.S32, False),
    ],
)
def test_libraries_take_transposed_operands(operand: E, result: E, expected: bool) -> None:
    assert GPU.packs_operands({operand}, result) is expected


def test_operands_of_a_library_have_one_type() -> None:
    assert not GPU.packs_operands({E.BF16, E.F32}, E.F32)


def test_products_of_bytes_are_those_of_s8() -> None:
    assert GPU.is_narrow_product({E.S8}, E.S8)
    assert not GPU.is_narrow_product({E.U8}, E.U8)


def test_there_are_no_tiles_of_registers() -> None:
    assert GPU.product_tile({E.F32}, E.F32) is None
    assert not GPU.lays_out_convolutions


@pytest.mark.parametrize(
    ("sizes", "result", "expected"),
    [
        ((1, 128, 512, 64), E.F32, True),
        ((1, 128, 512, 128), E.F32, True),
        ((1, 128, 512, 129), E.F32, False),  # a library adds up long sums in less time
        ((1, 128, 513, 64), E.F32, False),  # more tiles than are computed at once
        ((16, 64, 64, 32), E.F32, True),
        ((17, 64, 64, 32), E.F32, False),
        ((1, 16, 16, 16), E.S32, True),
        ((1, 15, 512, 64), E.F32, False),  # tiles that are mostly empty
        ((1, 512, 15, 64), E.F32, False),
        ((1, 128, 512, 15), E.F32, False),
        ((1, 128, 512, 128), E.BF16, True),
        ((1, 128, 512, 64), E.F64, True),
        ((1, 128, 512, 65), E.F64, False),
        ((1, 128, 512, 33), E.C64, False),
        ((1, 128, 512, 16), E.C128, True),
        ((1, 128, 512, 17), E.C128, False),
    ],
)
def test_kernels_compute_products_that_a_launch_takes_longer_than(
    sizes: tuple[int, int, int, int], result: E, expected: bool
) -> None:
    assert GPU.continues_product({result}, result, ProductSizes(*sizes)) is expected

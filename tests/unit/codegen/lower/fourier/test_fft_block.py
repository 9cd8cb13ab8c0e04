"""Calls that transform a block of lines: their order, constants and memory."""

from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.lower.lowered import AVX2
from xla_server.codegen.kernel_ir.expressions import Address, StackArray
from xla_server.codegen.kernel_ir.statements import Call
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.codegen.lower.fourier.fft_block import TABLES, BlockTransform, Tables, scratch_bytes
from xla_server.codegen.lower.fourier.fft_plan import prime_plan, radices
from xla_server.codegen.routines.fourier.fourier_passes import pass_routine

MACHINE = AVX2.machine
FIRST = StackArray("a", 4096)


def _block(n: int) -> tuple[BlockTransform, list[str]]:
    block = BlockTransform(MACHINE, n, Tables("f32"), FIRST)
    calls = [
        part.routine.name for part, _ in walk(tuple(block.body.statements)) if type(part) is Call
    ]
    return block, calls


@pytest.mark.parametrize(("kind", "real"), [("f32", np.float32), ("f64", np.float64)])
def test_constants_begin_at_lines_of_the_cache(kind: str, real: Any) -> None:
    tables = Tables(kind)
    assert str(tables.add([1 + 2j])) == str(Address(TABLES) + 0)
    assert str(tables.add(np.ones(3))) == str(Address(TABLES) + 64)
    assert str(tables.add_words([-5, 2**40])) == str(Address(TABLES) + 128)
    array = tables.array()
    assert (array.dtype, array.nbytes, tables.byte_size) == (real, 192, 192)
    width = array.itemsize
    np.testing.assert_array_equal(array[:2], [1, 2])
    np.testing.assert_array_equal(array[64 // width :][:3], [1, 1, 1])
    assert array[128 // width :].view(np.int64)[:2].tolist() == [-5, 2**40]


def test_a_line_of_one_element_is_its_own_transform() -> None:
    block, calls = _block(1)
    assert (block.result, block.stack, calls) == (FIRST, [FIRST], [])


def test_passes_go_from_one_block_to_the_other_and_back() -> None:
    for n in (7, 64, 4096):
        block, calls = _block(n)
        assert [memory.byte_size for memory in block.stack] == [4096] * 2
        assert block.result is block.stack[len(calls) % 2]
        _, factors = radices(n)
        assert calls == [
            pass_routine("f32", r, is_last=number == len(factors) - 1).name
            for number, r in enumerate(factors)
        ]


@pytest.mark.parametrize("way", ["generic", "rader", "bluestein"])
def test_a_large_prime_is_done_by_the_cheapest_way(way: str) -> None:
    prime = next(p for p in (17, 19, 23, 29, 61, 97, 101, 163, 167, 227) if prime_plan(p)[1] == way)
    block, calls = _block(prime * 4)
    own = {"generic": "generic", "rader": "fourier_gather_f32", "bluestein": "fourier_chirp_f32"}
    assert any(own[way] in name for name in calls)
    arrays = block.stack[2:]
    assert len(arrays) == (1 if way == "generic" else 2)
    least = {"generic": prime, "rader": prime - 1, "bluestein": 2 * prime - 1}[way]
    assert all(memory.byte_size >= least * 2 * MACHINE.vector_bytes for memory in arrays)


def test_short_rows_are_loaded_as_squares() -> None:
    assert scratch_bytes(MACHINE, 3) == scratch_bytes(MACHINE, 16) == 16 * 2 * 32
    assert scratch_bytes(MACHINE, 17) == 17 * 2 * 32

"""The choice of short loops that are vectorised as a whole."""

import ast
import textwrap

import pytest

from tests.processors import MACHINES, assembles
from tests.sources import source_module
from tests.unit.codegen.assembled import assembly_of
from xla_server.codegen.compiler.direct_vectors import vector_wish
from xla_server.target.machine import Machine

VECTORISED, MASKED = "llvm.loop.vectorize.enable", "llvm.loop.vectorize.predicate.enable"
STORES = """
for i in range({trips}):
    a = load_f32(buffer0, i)
    store_f32(buffer1, i, a)
    b = exp_f32(a)
    store_f32(buffer2, i, b)
"""
SUM = """
for i in range({trips}):
    a = load_f32(buffer0, i)
    s = add(s, a)
    store_f32(buffer1, i, s)
"""
NO_STORE = """
for i in range({trips}):
    a = load_f32(buffer0, i)
"""
LOOP_INSIDE = """
for i in range({trips}):
    store_f32(buffer1, i, x)
    for j in range(100):
        store_f32(buffer2, j, x)
"""
CALL = """
for i in range({trips}):
    store_f32(buffer1, i, x)
    swap(buffer1, buffer2)
"""


def wish(text: str, trips: int | str, processor: str) -> str | None:
    (loop,) = ast.parse(textwrap.dedent(text.format(trips=trips))).body
    assert isinstance(loop, ast.For)
    return vector_wish(loop, MACHINES[processor])


@pytest.mark.parametrize(
    ("trips", "avx2", "avx512"),
    [
        (9, VECTORISED, MASKED),
        (15, VECTORISED, MASKED),
        (16, None, None),
        (17, None, MASKED),
        (48, None, None),
        (63, None, MASKED),
        (65, None, None),
        ("n", None, None),
    ],
)
def test_the_wish_follows_iterations_and_processor(
    trips: int | str, avx2: str | None, avx512: str | None
) -> None:
    assert wish(STORES, trips, "avx2") == avx2
    assert wish(STORES, trips, "avx512") == avx512


@pytest.mark.parametrize("text", [SUM, NO_STORE, LOOP_INSIDE, CALL])
def test_loops_of_anything_but_values_and_stores_have_none(text: str) -> None:
    assert wish(text, 15, "avx512") is None
    assert wish(text, 15, "avx2") is None


KERNEL = """
def kernel(buffers, start, stop):
    first = peek_i64(buffers, 0)
    second = peek_i64(buffers, 1)
    third = peek_i64(buffers, 2)
    for t in range(start, stop):
        for i in range(15):
            a = load_f32(first, add(i, mul(t, 15)))
            b = mul(a, a)
            c = div(b, a)
            store_f32(second, add(i, mul(t, 15)), b)
            store_f32(third, add(i, mul(t, 15)), c)
"""


@assembles
def test_rows_of_15_with_two_results_are_vectors(machine: Machine) -> None:
    text = source_module(KERNEL, machine=machine)
    lines = assembly_of(str(text), machine).splitlines()
    divisions = [line for line in lines if line.strip().startswith("vdivps")]
    assert divisions
    assert not machine.has_masks or all("zmm" in line for line in divisions)
    assert not machine.has_masks or any("zmm" in line and "{%k1}" in line for line in lines)

"""Passes, loads and stores of Fourier transforms, called with memory of their own."""

import ctypes
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.processors import HOST
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.compiler.shared_functions import SharedFunction
from xla_server.codegen.routines.fourier.fourier_blocks import FOURIER_BLOCKS
from xla_server.codegen.routines.fourier.fourier_moves import FOURIER_MOVES, move_name
from xla_server.codegen.routines.fourier.fourier_passes import (
    FOURIER_PASSES,
    RADICES,
    generic_pass,
    pass_routine,
)
from xla_server.codegen.routines.fourier.fourier_text import unit_root

FUNCTIONS: Mapping[str, SharedFunction] = {
    **FOURIER_BLOCKS,
    **FOURIER_MOVES,
    **FOURIER_PASSES,
}
KINDS = ("f32", "f64")
REAL = {"f32": np.float32, "f64": np.float64}
BOUND = {"f32": 1e-6, "f64": 2e-15}
ONE = int(np.float64(1).view(np.int64))


def lanes(kind: str) -> int:
    return HOST.lanes(np.dtype(REAL[kind]).itemsize)


def call(name: str, *operands: Any) -> None:
    """Call a function; arrays stand for their addresses."""
    function, loader = FUNCTIONS[name], Loader(HOST)
    address = loader.load(function.object_code(HOST), function.symbol)
    words = [x.ctypes.data if isinstance(x, np.ndarray) else x for x in operands]
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * len(words))(address)(*words)


def block(kind: str, count: int, seed: int = 0) -> tuple[Any, Any]:
    """(memory, complex values by element and lane) of a block."""
    memory = np.random.default_rng(seed).standard_normal((count, 2, lanes(kind)))
    memory = memory.astype(REAL[kind])
    return memory, values(memory)


def values(memory: Any) -> Any:
    wide = memory.astype(np.float64)
    return wide[:, 0] + 1j * wide[:, 1]


def pairs(numbers: Any, kind: str) -> Any:
    """Complex numbers as real ones."""
    return np.ascontiguousarray(numbers.astype(np.complex128)).view(np.float64).astype(REAL[kind])


def twiddles(r: int, m: int) -> Any:
    return np.exp(-2j * np.pi * np.outer(np.arange(m), np.arange(1, r)) / (r * m))


def of_pass(x: Any, r: int, s: int, m: int) -> Any:
    """Return the result of a pass for elements along the first axis."""
    spectrum = np.fft.fft(x.reshape(r, m, s, -1), axis=0)
    turns = np.exp(-2j * np.pi * np.outer(np.arange(r), np.arange(m)) / (r * m))
    return (spectrum * turns[:, :, None, None]).swapaxes(0, 1).reshape(x.shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("r", RADICES)
def test_a_pass_of_each_radix(kind: str, r: int) -> None:
    for s, m, is_last in ((1, 3, False), (2, 2, False), (3, 1, True), (1, 1, True)):
        source, x = block(kind, r * s * m)
        target = np.zeros_like(source)
        table = pairs(twiddles(r, m), kind)
        call(pass_routine(kind, r, is_last=is_last).name, source, target, s, m, table)
        np.testing.assert_allclose(values(target), of_pass(x, r, s, m), atol=20 * BOUND[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("r", [3, 17, 61])
def test_a_pass_of_any_odd_radix(kind: str, r: int) -> None:
    for s, m in ((1, 3), (2, 2), (3, 1)):
        source, x = block(kind, r * s * m)
        target, workspace = np.zeros_like(source), np.zeros_like(source[:r])
        angles = 2 * np.pi * np.arange(r) / r
        roots = pairs(np.cos(angles) + 1j * np.sin(angles), kind)
        table = pairs(twiddles(r, m), kind)
        call(generic_pass(kind).name, source, target, s, m, table, r, roots, workspace)
        np.testing.assert_allclose(values(target), of_pass(x, r, s, m), atol=60 * BOUND[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("form", "is_real"),
    [*itertools.product(["rows", "short_rows", "columns"], [False, True]), ("lines", False)],
)
def test_loads_and_stores(kind: str, form: str, is_real: bool) -> None:
    width, random = lanes(kind), np.random.default_rng(1)
    count = 2 if form == "short_rows" else 2 * width + 1
    for lines in (1, width - 1, width):
        memory = random.standard_normal((lines, count) if "rows" in form else (count, lines))
        array = memory.astype(REAL[kind])
        if not is_real:
            array = (array + 1j * array[::-1]).astype(np.result_type(array, np.complex64))
        expected = array if "rows" in form else array.T
        result = np.full_like(array, 7)
        scratch = np.full((max(count, width), 2, width), 5, REAL[kind])
        ahead = array.strides[0]
        imaginary = scratch.ctypes.data + scratch.strides[1]
        # Groups of three lines, of which the last may be shorter.
        groups = (0, 3, 3 * array.itemsize, array.itemsize) if form == "lines" else ()
        for target, is_load in ((array, True), (result, False)):
            name = move_name(kind, form, is_load=is_load, is_real=is_real)
            call(name, target, scratch, imaginary, lines, ahead, count, ONE, *groups)
            if is_load:
                loaded = values(scratch)[:count, :lines].T
                np.testing.assert_array_equal(loaded, expected)
        np.testing.assert_array_equal(result, array)


@pytest.mark.parametrize("kind", KINDS)
def test_stores_multiply_and_leave_what_is_beside_the_lines(kind: str) -> None:
    scratch, x = block(kind, 3)
    memory = np.zeros((3, lanes(kind) + 2), np.result_type(REAL[kind], np.complex64))
    half = int(np.float64(0.5).view(np.int64))
    imaginary = scratch.ctypes.data + scratch.strides[1]
    name = move_name(kind, "columns", is_load=False, is_real=False)
    lines = lanes(kind) - 1
    call(name, memory, scratch, imaginary, lines, memory.strides[0], 3, half)
    np.testing.assert_array_equal(memory[:, :lines], x[:, :lines] / 2)
    np.testing.assert_array_equal(memory[:, lines:], 0)


def test_columns_of_no_lines_or_elements_do_nothing() -> None:
    for lines, count in ((0, 1), (-3, 1), (4, 0)):
        call(move_name("f32", "columns", is_load=True, is_real=False), 0, 0, 0, lines, 8, count, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("half", [1, 2, 3, 8])
def test_half_a_length_and_back(kind: str, half: int) -> None:
    """Elements 0 to half of a real transform of length 2 half, and those of pairs of numbers."""
    memory, x = block(kind, half)
    lines = np.stack([x.real, x.imag], 1).reshape(2 * half, -1)
    expected = np.fft.rfft(lines, axis=0)
    packed = np.fft.fft(x, axis=0)
    given = np.zeros((half + 1, *memory.shape[1:]), memory.dtype)
    given[:half, 0], given[:half, 1] = packed.real, packed.imag
    turns = np.exp(-1j * np.pi * np.arange(1, half // 2 + 1) / half)
    imaginary = given.ctypes.data + given.strides[1]
    table = pairs(np.array([0.5, *(-0.5j * turns)]), kind)
    call(f"fourier_from_half_{kind}", given, imaginary, half, table)
    np.testing.assert_allclose(values(given), expected, atol=20 * BOUND[kind])
    table = pairs(np.array([1, *(1j * turns.conj())]), kind)
    call(f"fourier_to_half_{kind}", given, imaginary, half, table)
    np.testing.assert_allclose(values(given)[:half], 2 * packed, atol=40 * BOUND[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 3, 9])
def test_a_spectrum_is_completed(kind: str, n: int) -> None:
    memory, x = block(kind, n)
    imaginary = memory.ctypes.data + memory.strides[1]
    call(f"fourier_mirror_{kind}", memory, imaginary, n)
    expected = x.copy()
    expected[0] = x[0].real
    expected[n // 2 + 1 :] = x[1 : n // 2 + 1][::-1].conj()
    np.testing.assert_array_equal(values(memory), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_products_with_tables(kind: str) -> None:
    random, width = np.random.default_rng(3), lanes(kind)
    fine, coarse = (random.standard_normal((k, 2)) @ [1, 1j] for k in (4, 3))
    table = np.outer(coarse, fine).ravel()[:10, None]
    memory, x = block(kind, 10)
    call(f"fourier_twiddle_{kind}", memory, 10, pairs(fine, kind), pairs(coarse, kind), 4)
    np.testing.assert_allclose(values(memory), x * table, atol=20 * BOUND[kind])
    memory, x = block(kind, 10)
    wide = [np.repeat(v, width).reshape(-1, width) for v in (fine, coarse)]
    tables = [np.stack([w.real, w.imag], 1).astype(REAL[kind]) for w in wide]
    call(f"fourier_twiddle_lanes_{kind}", memory, 10, *tables, 4)
    np.testing.assert_allclose(values(memory), x * table, atol=20 * BOUND[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["chirp", "chirp_to", "chirp_from"])
def test_chirps_and_the_zeros_behind_them(kind: str, name: str) -> None:
    memory, x = block(kind, 6)
    chirp = np.exp(1j * np.arange(3))
    target = np.full((5, *memory.shape[1:]), 9, memory.dtype)
    step = memory.strides[0]
    call(f"fourier_{name}_{kind}", memory, 2 * step, target, step, 3, pairs(chirp, kind), 5)

    def swapped(z: Any) -> Any:
        return z.imag + 1j * z.real

    operand = swapped(x[::2]) if name == "chirp_from" else x[::2]
    product = operand * chirp[:, None]
    expected = np.zeros((5, lanes(kind)), np.complex128)
    expected[:3] = swapped(product) if name == "chirp_to" else product
    np.testing.assert_allclose(values(target), expected, atol=10 * BOUND[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_elements_are_taken_in_an_order_and_given_back(kind: str) -> None:
    memory, x = block(kind, 5)
    order = np.array([3, 0, 4]) * memory.strides[0]
    taken, given = np.zeros_like(memory[:3]), np.zeros_like(memory)
    call(f"fourier_gather_{kind}", memory, taken, 3, order)
    np.testing.assert_array_equal(values(taken), x[[3, 0, 4]])
    factors = np.exp(1j * np.arange(3))
    call(f"fourier_scatter_{kind}", taken, given, 3, order, pairs(factors, kind))
    expected = np.zeros_like(x)
    expected[[3, 0, 4]] = (values(taken).imag + 1j * values(taken).real) * factors[:, None]
    np.testing.assert_allclose(values(given), expected, atol=10 * BOUND[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_sums_of_elements(kind: str) -> None:
    memory, x = block(kind, 2)
    target = np.zeros_like(memory[:1])
    call(f"fourier_sum_{kind}", memory, memory[1:], target)
    np.testing.assert_allclose(values(target)[0], x[0] + x[1], atol=BOUND[kind])
    call(f"fourier_sum_swapped_{kind}", memory, memory[1:], target)
    swapped = x[0].imag + 1j * x[0].real
    np.testing.assert_allclose(values(target)[0], swapped + x[1], atol=BOUND[kind])


def test_roots_of_unity_are_exact_where_they_can_be() -> None:
    assert unit_root(0, 7) == (1, 0)
    assert [unit_root(k, 4) for k in range(1, 4)] == [(0, -1), (-1, 0), (0, 1)]
    for n in (3, 5, 12, 13):
        for k in range(2 * n):
            real, imaginary = unit_root(k, n)
            assert abs(complex(real, imaginary) - np.exp(-2j * np.pi * (k % n) / n)) < 2e-15
            assert unit_root(n - k, n) == (real, -imaginary)

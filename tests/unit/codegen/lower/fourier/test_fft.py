"""Compiled Fourier transforms beside the interpreter, and beside jaxlib."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws.depth import paired
from tests.processors import HOST, TARGET, tuned
from tests.unit.codegen.compiled import both, built, imported, on_cpu
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.ops.linear_algebra.fft import FftType
from xla_contract.types.element_type import ElementType as E
from xla_server.backends.compiled.compilation import compile_module
from xla_server.backends.compiled.cpu import Cpu
from xla_server.codegen.kernel_ir.analysis.verify import verify
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.schedules.builders.launches.stopping import LONG_WORK_ITEM
from xla_server.target.machine import Machine
from xla_server.target.target import Target

SIZES = [
    ((1,), 1),
    ((2,), 1),
    ((7,), 1),
    ((3, 16), 1),
    ((2, 3, 15), 1),
    ((4, 6), 2),
    ((3, 5, 1), 2),
    ((2, 3, 4, 7), 3),
    ((5, 1, 6), 3),
    ((211,), 1),
    ((0, 4), 1),
    ((4, 0), 1),
    ((0, 3), 2),
]


def drawn(kind: FftType, element: E, sizes: tuple[int, ...]) -> Any:
    generator = np.random.default_rng(len(sizes))
    if kind is FftType.IRFFT:
        sizes = (*sizes[:-1], sizes[-1] // 2 + 1 if sizes[-1] else 0)
    array = generator.standard_normal(sizes)
    if kind is FftType.RFFT:
        return array.astype(element.dtype)
    return (array + 1j * generator.standard_normal(sizes)).astype(element.complex_of.dtype)


def assert_close(pairs: Any, element: E) -> None:
    bound = 2e-5 if element is E.F32 else 1e-12
    for ours, expected in pairs:
        assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(ours, expected, rtol=bound, atol=bound)


def program(kind: FftType) -> Any:
    def function(*parameters: Op) -> Op:
        rows = [
            ops.fft(parameter, kind, sizes[len(sizes) - count :])
            for parameter, (sizes, count) in zip(parameters, SIZES, strict=True)
        ]
        return ops.tuple([*rows, *parameters], parameters[0].builder)

    return function


@pytest.mark.parametrize("kind", list(FftType))
@pytest.mark.parametrize("element", [E.F32, E.F64], ids=lambda element: element.text)
def test_every_transform(kind: FftType, element: E) -> None:
    arrays = [drawn(kind, element, sizes) for sizes, _ in SIZES]
    pairs = both(program(kind), *arrays)
    assert_close(pairs[: len(SIZES)], element)
    for ours, given in zip(pairs[len(SIZES) :], arrays, strict=True):
        assert_equal_bits(ours[0], given)


def spectrum(kind: FftType, sizes: tuple[int, ...], count: int) -> Any:
    return lambda a: ops.fft(a, kind, sizes[len(sizes) - count :])


WAYS = [
    # Lines that are rows, columns, and neither; the last vectors are not full.
    ((37, 40), 1),
    ((2, 40, 37), 2),
    ((33, 24, 3), 2),
    # Lines cut in two: few and many rows, few and many columns.
    ((1, 1500), 1),
    ((3, 91), 1),
    ((9, 5000), 1),
    ((9, 4997), 1),
    ((1500, 3), 1),
    ((1500, 3), 2),
    ((9, 4500, 3), 2),
    ((1, 6000, 20), 2),
    # Prime factors by the generic pass and by convolutions inside of blocks and around them.
    ((20, 37), 1),
    ((20, 29), 1),
    ((20, 29 * 23 * 2), 1),
    ((20, 37 * 41), 1),
    ((20, 4 * 107), 1),
    ((20, 3 * 641), 1),
    ((3, 1009), 1),
    ((20, 4 * 283), 1),
    ((3, 1031), 1),
    ((1031, 3), 2),
    ((1031, 20), 2),
    ((1, 2 * 1031), 1),
    ((2, 10007), 1),
    ((10007, 3), 2),
]


def of_one_dimension(
    kind: FftType, element: E, sizes: tuple[int, ...], count: int
) -> list[tuple[Any, Any]]:
    return both(spectrum(kind, sizes, count), drawn(kind, element, sizes))


@pytest.mark.parametrize(
    ("way", "variant"),
    paired(WAYS, itertools.product(FftType, [E.F32, E.F64]), 4),
    ids=lambda each: "-".join(map(str, each)),
)
def test_every_way(way: tuple[tuple[int, ...], int], variant: tuple[FftType, E]) -> None:
    (sizes, count), (kind, element) = way, variant
    ((ours, expected),) = of_one_dimension(kind, element, sizes, count)
    assert_near(ours, expected, element)


def assert_near(ours: Any, expected: Any, element: E) -> None:
    """Within rounding, of the root mean square."""
    assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
    wide = expected.astype(np.complex128)
    error = np.sqrt(np.mean(np.abs(ours - wide) ** 2) / np.mean(np.abs(wide) ** 2))
    assert error < (1e-6 if element is E.F32 else 2e-15)


CUTTING = Cpu(target=tuned(TARGET, "fourier", max_block_elements=16))
"""A platform whose blocks have so few elements that lines are cut more than once."""


@pytest.mark.parametrize("kind", list(FftType))
@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ((2, 2048), 1),
        ((3, 2025), 1),
        ((2048, 3), 2),
        ((2048, 20), 2),
        ((2, 1031), 1),
        ((997, 3), 2),
    ],
    ids=str,
)
def test_lines_that_are_cut_more_than_once(
    kind: FftType, sizes: tuple[int, ...], count: int
) -> None:
    array = drawn(kind, E.F64, sizes)
    ((ours, expected),) = both(spectrum(kind, sizes, count), array, cpu=CUTTING)
    assert_near(ours, expected, E.F64)


def test_roots_of_long_lines_are_products_of_two() -> None:
    array = drawn(FftType.FFT, E.F32, (1, 1 << 16))
    ((ours, expected),) = both(spectrum(FftType.FFT, array.shape, 1), array)
    assert_near(ours, expected, E.F32)
    code = compile_module(built(spectrum(FftType.FFT, array.shape, 1), (array,))).code
    assert sum(table.nbytes for table in code.constants.values()) < array.nbytes


@pytest.mark.parametrize("element", [E.F32, E.F64], ids=lambda element: element.text)
@pytest.mark.parametrize("rows", [1, 33, 64, 1001])
def test_a_work_item_is_a_block_of_lines(element: E, rows: int) -> None:
    """All blocks cost the same, so work is shared evenly."""
    array = drawn(FftType.RFFT, element, (rows, 12))
    (kernel,) = kernels_of(
        compile_module(built(spectrum(FftType.RFFT, (rows, 12), 1), (array,))).code
    )
    assert kernel.work_items == -(-rows // HOST.lanes(element.byte_width))


def test_many_long_lines_are_the_work_items_themselves() -> None:
    """Data between the two steps of a line stays with the thread."""
    array = drawn(FftType.FFT, E.F64, (40, 6000))
    code = compile_module(built(spectrum(FftType.FFT, array.shape, 1), (array,))).code
    assert [kernel.work_items for kernel in kernels_of(code)] == [40]


@pytest.mark.parametrize("kind", list(FftType))
@pytest.mark.parametrize("sizes", [(1, 1 << 16), (2, 3 * 6561), (1, 10007)], ids=str)
def test_no_work_item_has_much_of_a_long_line(kind: FftType, sizes: tuple[int, ...]) -> None:
    array = drawn(kind, E.F32, sizes)
    kernels = kernels_of(compile_module(built(spectrum(kind, sizes, 1), (array,))).code)
    for kernel in kernels:
        assert kernel.work_items > 1 or kernel.work < TARGET.tuning.loops.chunks.parallel_work
        assert kernel.work < LONG_WORK_ITEM


def test_blocks_of_the_widest_vectors_fit_on_a_stack() -> None:
    array = drawn(FftType.FFT, E.F32, (9, 16 * 4078))
    module = built(spectrum(FftType.FFT, array.shape, 1), (array,))
    for thunk in kernels_of(compile_module(module, target=Target.of(Machine.avx512())).code):
        assert isinstance(thunk.kernel, Kernel)
        verify(thunk.kernel)


@pytest.mark.parametrize("kind", list(FftType))
def test_results_do_not_depend_on_threads(kind: FftType) -> None:
    sizes = (3, 70, 1500)
    array = drawn(kind, E.F32, sizes)
    module = built(spectrum(kind, sizes, 2), (array,))
    results = []
    for threads in (1, 3):
        cpu = Cpu(threads=threads)
        results.append(on_cpu(module, [array], cpu)[0])
        cpu.close()
    assert_equal_bits(*results)


@pytest.mark.parametrize("kind", [FftType.FFT, FftType.RFFT])
@pytest.mark.parametrize("n", [15, 16, 37, 67])
def test_lines_do_not_reach_each_other(kind: FftType, n: int) -> None:
    array = drawn(kind, E.F32, (5, n))
    array[3] = np.nan
    array[1] *= 1e20
    ((ours, expected),) = both(spectrum(kind, array.shape, 1), array)
    assert np.isnan(ours[3]).all()
    for row in (0, 1, 2, 4):
        assert_near(ours[row], expected[row], E.F32)


def test_values_that_are_not_finite() -> None:
    array = np.array([[1, np.inf, 2, 3], [1, np.nan, 0, 0], [1, 2, 3, 4]], np.complex64)
    ((ours, expected),) = both(lambda a: ops.fft(a, FftType.FFT, (4,)), array)
    np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(expected))


def test_transforms_of_jax() -> None:
    def program(a: Any) -> Any:
        spectrum = jnp.fft.rfft2(a)
        return (
            jnp.fft.fftshift(jnp.fft.fft(a, axis=1)),
            jnp.fft.irfft2(spectrum, s=(5, 9)),
            jnp.fft.ifftn(spectrum),
            jnp.fft.hfft(spectrum),
        )

    a = drawn(FftType.RFFT, E.F32, (4, 5, 9))
    lowered = jax.jit(program).lower(a)
    module = imported(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())
    expected = [np.asarray(value) for value in jax.jit(program)(a)]
    assert_close(zip(on_cpu(module, [a]), expected, strict=True), E.F32)

"""Compiled Fourier transforms beside the interpreter, and beside jaxlib."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.unit.codegen.compiled import both, built, imported, on_cpu
from xla_client import ops
from xla_client.builder import Op
from xla_contract.element_type import ElementType as E
from xla_contract.ops.fft import FftType
from xla_server.backends.compilation import compile_module
from xla_server.codegen.instructions import transforms
from xla_server.codegen.lower import fft as lower_fft
from xla_server.codegen.lower.lowering import kernels_of

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


@pytest.mark.parametrize("count", [1, 2])
def test_parts_by_several_threads(count: int) -> None:
    array = drawn(FftType.FFT, E.F32, (300, 400))

    def function(a: Op) -> Op:
        return ops.fft(a, FftType.FFT, (300, 400)[2 - count :])

    ((ours, expected),) = both(function, array)
    np.testing.assert_allclose(ours, expected, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("sizes", "trips"),
    [
        ((1000, 8), [32]),
        ((40, 250), [2, 8]),
        ((5, 16, 4), [4, 4]),
        ((200, 16, 4), [64, 32]),
        ((9, 1), [1]),
    ],
    ids=["rows", "columns", "few_lines", "columns_across_blocks", "one_column"],
)
def test_a_plan_is_made_for_many_lines(sizes: tuple[int, ...], trips: list[int]) -> None:
    array = drawn(FftType.FFT, E.F32, sizes)

    def function(a: Op) -> Op:
        return ops.fft(a, FftType.IFFT, sizes[len(sizes) - len(trips) :])

    code = compile_module(built(function, (array,))).code
    assert [kernel.trips for kernel in kernels_of(code)] == trips
    ((ours, expected),) = both(function, array)
    np.testing.assert_allclose(ours, expected, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("lines", [33, 65, 100, 1001])
def test_work_items_have_the_same_number_of_lines(lines: int) -> None:
    array = drawn(FftType.RFFT, E.F64, (lines, 12))

    def function(a: Op) -> Op:
        return ops.fft(a, FftType.RFFT, (12,))

    (kernel,) = kernels_of(compile_module(built(function, (array,))).code)
    shares = [
        lines * (n + 1) // kernel.trips - lines * n // kernel.trips for n in range(kernel.trips)
    ]
    assert kernel.trips > 1
    assert max(shares) - min(shares) <= 1
    ((ours, expected),) = both(function, array)
    np.testing.assert_allclose(ours, expected, atol=1e-13)


def test_values_that_are_not_finite() -> None:
    array = np.array([[1, np.inf, 2, 3], [1, np.nan, 0, 0], [1, 2, 3, 4]], np.complex64)
    ((ours, expected),) = both(lambda a: ops.fft(a, FftType.FFT, (4,)), array)
    np.testing.assert_array_equal(np.isfinite(ours), np.isfinite(expected))


def test_the_host_transforms_where_numpy_has_no_native_loops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lower_fft, "TRANSFORMS", {})
    array = drawn(FftType.RFFT, E.F32, (3, 8))
    ((ours, expected),) = both(lambda a: ops.fft(a, FftType.RFFT, (8,)), array)
    assert_equal_bits(ours, expected)


def test_another_structure_of_universal_functions_is_noticed() -> None:
    assert transforms.TRANSFORMS
    assert transforms._loop(np.add, "fft", "FfF") is None
    assert transforms._loop(np.sqrt, "sqrt", "FfF") is None


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

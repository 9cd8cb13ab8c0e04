"""Epilogues of dots and convolutions, computed block by block."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.jax.programs import lower
from tests.processors import TARGET
from tests.unit.codegen.compiled import imported, interpreted, on_cpu, pairs
from xla_contract.types.shape import Shape
from xla_server.backends.compile_options import CompileOptions
from xla_server.backends.compiled.compilation import compile_module
from xla_server.backends.compiled.cpu import Cpu
from xla_server.buffers.code import CANCELLATION, KernelThunk
from xla_server.buffers.code import Value as Array
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import Buffer, Index, Usage, Value
from xla_server.codegen.kernel_ir.statements import For
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.loop_nests.epilogue import Epilogue, EpilogueKernel, Product
from xla_server.codegen.lower.lowering import Lowering, kernels_of
from xla_server.fusion.output_fusion import OutputFusion
from xla_server.ir.module import HloModule
from xla_server.passes.framework.selection import PassOptions

_RANDOM = np.random.default_rng(0)


def _f32(*dimensions: int) -> Any:
    return _RANDOM.standard_normal(dimensions).astype(np.float32)


def _dense(x: Any, w: Any, b: Any) -> Any:
    return jax.nn.relu(x @ w + b)


def _inner(x: Any, y: Any) -> Any:
    return jnp.maximum(jnp.einsum("kbc,ckb->b", x, y), 0)


def _half(x: Any, w: Any, b: Any) -> Any:
    return (x @ w + b).astype(jnp.bfloat16)


def _both(x: Any, w: Any, b: Any) -> Any:
    product = x @ w
    return product, product * b


def _residual(x: Any, w: Any, r: Any) -> Any:
    return 0.5 * (x @ w) + r


def _weights(q: Any, k: Any) -> Any:
    return jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", q, k) / 8)


def _overlap(x: Any, w: Any) -> Any:
    return jnp.tanh(jnp.einsum("ij,ji->", x, w))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "one_piece": (_dense, (_f32(8, 6), _f32(6, 5), _f32(5))),
    "rows_in_pieces": (_dense, (_f32(300, 100), _f32(100, 150), _f32(150))),
    "columns_in_pieces": (_dense, (_f32(100, 150), _f32(150, 300), _f32(300))),
    "complex": (
        _residual,
        (_f32(9, 7).astype(np.complex64), _f32(7, 5) * np.complex64(1j), _f32(9, 5)),
    ),
    "another_type": (_half, (_f32(70, 60), _f32(60, 50), _f32(50))),
    "residual": (_residual, (_f32(64, 32), _f32(32, 16), _f32(64, 16))),
    "rows_of_a_batch": (_weights, (_f32(3, 20, 8), _f32(3, 24, 8))),
    "whole_rows_in_pieces": (_weights, (_f32(1, 130, 64), _f32(1, 600, 64))),
}


def _multiplying(module: HloModule) -> list[KernelThunk]:
    """The kernels, but for those that lay out panels."""
    thunks = kernels_of(compile_module(module).code)
    return [thunk for thunk in thunks if "gemm_layout" not in thunk.source]


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_as_interpreted(name: str) -> None:
    function, arguments = PROGRAMS[name]
    module = imported(lower(function, *arguments))
    assert len(_multiplying(module)) == 1
    ((compiled, expected),) = pairs(module, arguments)
    assert (compiled.dtype, compiled.shape) == (expected.dtype, expected.shape)
    relative = 1e-2 if name == "another_type" else 1e-5
    wide = np.complex128 if name == "complex" else np.float64
    np.testing.assert_allclose(
        compiled.astype(wide), expected.astype(wide), rtol=relative, atol=relative
    )


def test_the_product_may_be_a_result_too() -> None:
    arguments = (_f32(70, 60), _f32(60, 50), _f32(50))
    module = imported(lower(_both, *arguments))
    assert len(_multiplying(module)) == 1
    for compiled, expected in pairs(module, arguments):
        np.testing.assert_allclose(compiled, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["columns_in_pieces", "whole_rows_in_pieces"])
def test_the_same_bits_on_any_number_of_threads(name: str) -> None:
    function, arguments = PROGRAMS[name]
    module = imported(lower(function, *arguments))
    assert_equal_bits(*(on_cpu(module, arguments, Cpu(threads=n))[0] for n in (1, 3)))


def test_a_batch_of_products_of_one_element_each() -> None:
    """One column only: all there is to do stands in the loop over rows."""
    arguments = _f32(4, 14, 5), _f32(5, 4, 14)
    module = imported(lower(_inner, *arguments))
    ((compiled, expected),) = pairs(module, arguments)
    np.testing.assert_allclose(compiled, expected, rtol=1e-5, atol=1e-5)


def test_one_element_is_read_after_it_is_computed() -> None:
    arguments = _f32(5, 4), _f32(4, 5)
    module = imported(lower(_overlap, *arguments))
    # In a second run memory does not have what is right by chance.
    for scale in (0, 1):
        scaled = [np.float32(scale) * argument for argument in arguments]
        ((compiled, expected),) = pairs(module, scaled)
        np.testing.assert_allclose(compiled, expected, rtol=1e-5, atol=1e-5)


def _convolution(
    stride: int = 1, name: str = "relu", padding: Any = "SAME", **options: Any
) -> Callable[..., Any]:
    def convolve(x: Any, w: Any, b: Any, *residual: Any) -> Any:
        labels = _LABELS[("first" if name == "first" else "last", x.ndim)]
        product = jax.lax.conv_general_dilated(
            x, w, (stride,) * (x.ndim - 2), padding, dimension_numbers=labels, **options
        )
        if name == "half":
            return (product + b).astype(jnp.bfloat16)
        if name == "both":
            return product, product + b
        if name == "complex":
            return product * b + 1
        if name == "first":
            b = b.reshape(-1, *(1,) * (x.ndim - 2))
        return jax.nn.relu(sum(residual, product + b))

    return convolve


_LABELS = {
    ("last", 3): ("NWC", "WIO", "NWC"),
    ("last", 4): ("NHWC", "HWIO", "NHWC"),
    ("last", 5): ("NDHWC", "DHWIO", "NDHWC"),
    ("first", 3): ("NCW", "OIW", "NCW"),
    ("first", 4): ("NCHW", "OIHW", "NCHW"),
}
CONVOLUTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int | None]] = {
    # The last block has fewer rows.
    "tiles": (
        _convolution(2), (_f32(3, 37, 19, 5), _f32(3, 3, 5, 40), _f32(40)), 1,
    ),
    "laid_out_panels": (
        _convolution(2), (_f32(2, 21, 19, 5), _f32(3, 3, 5, 72), _f32(72)), 2,
    ),
    "three_dimensions": (
        _convolution(), (_f32(2, 9, 6, 7, 3), _f32(2, 3, 2, 3, 12), _f32(12)), 1,
    ),
    "residual": (
        _convolution(), (_f32(2, 11, 9, 5), _f32(3, 3, 5, 24), _f32(2, 11, 9, 24)), 1,
    ),
    "points": (
        _convolution(), (_f32(2, 27, 31, 19), _f32(3, 3, 19, 37), _f32(37)), 2,
    ),
    "another_type": (
        _convolution(name="half"),
        (_f32(1, 14, 15, 16), _f32(3, 3, 16, 16), _f32(16)),
        2,
    ),
    "product_too": (
        _convolution(name="both"),
        (_f32(1, 14, 15, 16), _f32(3, 3, 16, 16), _f32(16)),
        2,
    ),
    "one_place": (
        _convolution(), (_f32(2, 9, 8, 20), _f32(1, 1, 20, 24), _f32(24), _f32(2, 9, 8, 24)), 1,
    ),
    "one_place_strided": (
        _convolution(2), (_f32(2, 9, 11, 20), _f32(1, 1, 20, 24), _f32(24)), 1,
    ),
    "one_place_features_first": (
        _convolution(name="first"),
        (_f32(2, 20, 9, 7), _f32(24, 20, 1, 1), _f32(24), _f32(2, 24, 9, 7)),
        1,
    ),
    # Its arrays are transposed before it and behind it.
    "tiles_features_first": (
        _convolution(name="first"), (_f32(2, 3, 33, 20), _f32(5, 3, 3, 3), _f32(5)), 4,
    ),
    # Its rows are too short for tiles.
    "patches_features_first": (
        _convolution(name="first"), (_f32(2, 6, 40, 2), _f32(5, 6, 3, 3), _f32(5)), 1,
    ),
    "groups": (
        _convolution(feature_group_count=3),
        (_f32(2, 12, 11, 12), _f32(3, 3, 4, 48), _f32(48), _f32(2, 12, 11, 48)),
        1,
    ),
    "groups_of_few": (
        _convolution(feature_group_count=3), (_f32(2, 9, 8, 12), _f32(3, 3, 4, 15), _f32(15)), 1,
    ),
    "one_group_each": (
        _convolution(feature_group_count=12), (_f32(2, 9, 8, 12), _f32(3, 3, 1, 24), _f32(24)), 1,
    ),
    "groups_of_the_batch": (
        _convolution(batch_group_count=2), (_f32(4, 9, 8, 12), _f32(3, 3, 12, 10), _f32(10)), 1,
    ),
    "phases": (
        _convolution(padding=((1, 2), (2, 3)), lhs_dilation=(2, 3)),
        (_f32(2, 9, 7, 12), _f32(3, 4, 12, 20), _f32(20), _f32(2, 18, 21, 20)),
        1,
    ),
    "one_dimension": (
        _convolution(), (_f32(2, 101, 12), _f32(5, 12, 20), _f32(20), _f32(2, 101, 20)), 1,
    ),
    "phases_of_one_dimension": (
        _convolution(padding=((3, 2),), lhs_dilation=(3,)),
        (_f32(2, 31, 12), _f32(5, 12, 20), _f32(20)),
        1,
    ),
    "complex": (
        _convolution(name="complex"),
        (_f32(1, 9, 8, 6) * np.complex64(1j), _f32(3, 3, 6, 8) + np.complex64(2j), _f32(8)),
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_with_what_follows_as_interpreted(name: str) -> None:
    function, arguments, kernels = CONVOLUTIONS[name]
    module = imported(lower(function, *arguments))
    assert kernels in (len(kernels_of(compile_module(module).code)), None)
    expected = interpreted(module, arguments)
    results = on_cpu(module, arguments, Cpu(threads=3))
    apart = on_cpu(module, arguments, options=_WITHOUT_EPILOGUES)
    for compiled, alone, exact in zip(results, apart, expected, strict=True):
        assert (compiled.dtype, compiled.shape) == (exact.dtype, exact.shape)
        wide = np.complex128 if name == "complex" else np.float64
        bound = (1e-2 if name == "another_type" else 2e-5) * np.abs(exact.astype(wide)).max()
        for found in (compiled, alone):
            np.testing.assert_allclose(found.astype(wide), exact.astype(wide), rtol=0, atol=bound)
    for one, other in zip(results, on_cpu(module, arguments, Cpu(threads=1)), strict=True):
        assert_equal_bits(one, other)


_WITHOUT_EPILOGUES = CompileOptions(passes=PassOptions(disabled=frozenset({OutputFusion.name})))


@pytest.mark.parametrize("dimensions", [(2, 8, 8), (8, 2, 1, 8)])
def test_a_loop_writes_results_of_other_dimensions(dimensions: tuple[int, ...]) -> None:
    """A convolution that no tiles compute, beside what is made of its elements reshaped."""

    def convolve(x: Any, w: Any) -> Any:
        product = jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")
        return product.reshape(dimensions) * 2 + 1, product

    arguments = _RANDOM.integers(-9, 9, (2, 3, 8, 8)), _RANDOM.integers(-9, 9, (1, 3, 3, 3))
    arguments = tuple(part.astype(np.int32) for part in arguments)
    module = imported(lower(convolve, *arguments))
    assert len(kernels_of(compile_module(module).code)) == 1
    for compiled, expected in pairs(module, arguments):
        assert_equal_bits(compiled, expected)


@pytest.mark.parametrize("sizes", [(1, 64, 65), (2, 33, 40), (1, 1, 300), (3, 40, 1)])
@pytest.mark.parametrize("features", [(4, 1), (1, 1), (1, 8), (8, 8)])
def test_what_follows_a_convolution_of_dimensions_of_one_element(
    sizes: tuple[int, int, int], features: tuple[int, int]
) -> None:
    """Dimensions of one element are dropped from what follows, also the convolution's features."""
    inputs, outputs = features

    def convolved(x: Any, w: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers) * 2 + 1

    arguments = _f32(*sizes, inputs), _f32(3, 3, inputs, outputs)
    module = imported(lower(convolved, *arguments))
    ((compiled, expected),) = pairs(module, arguments)
    np.testing.assert_allclose(compiled, expected, rtol=1e-5, atol=1e-4)


def test_equal_epilogues_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def layers(x: Any, w: Any, b: Any) -> Any:
        for finish in (jnp.tanh, jnp.tanh, jnp.sin, jnp.tanh):
            x = finish(x @ w + b)
        # The sum reads the operand and the result of a product by one fusion.
        return jnp.tanh(x @ w + x)

    arguments = [_f32(40, 40), _f32(40, 40) / 9, _f32(40)]
    module, whole = imported(lower(layers, *arguments)), Product._written
    written: list[str] = []

    def watched(product: Product, *rest: Any) -> Epilogue:
        written.append(product.name)
        return whole(product, *rest)

    monkeypatch.setattr(Product, "_written", watched)
    (compiled,), (expected,) = on_cpu(module, arguments), interpreted(module, arguments)
    np.testing.assert_allclose(compiled, expected, rtol=1e-5, atol=1e-5)
    assert len(written) == 3


def test_a_kernel_and_its_epilogue_share_buffers() -> None:
    loops = For(Value("i", Type.I64), Index(0), Index(1), (), 1)
    shared, own = Buffer(2, Usage.WRITE), Buffer(1, Usage.READ)
    unused, beside, product, operand = (
        Array(Shape.parse("f32[2]"), name) for name in ("unused", "beside", "product", "operand")
    )
    epilogue = Epilogue((unused, beside, product), (own, shared), loops=(loops,))
    building = EpilogueKernel(epilogue)
    assert building.buffer(product, Usage.WRITE) is shared
    found = building.buffer(operand, Usage.READ)
    assert building.buffer(operand, Usage.READ) is found
    word = building.buffer(CANCELLATION, Usage.FLAG)
    assert (found.number, word.number) == (3, 4)
    kernel = building.built(Effort.UNOPTIMISED)
    assert (kernel.buffers, kernel.effort) == ((shared, found, word, own), Effort.OPTIMISED)
    assert EpilogueKernel().built(Effort.UNOPTIMISED).effort is Effort.UNOPTIMISED
    lowering = Lowering({}, TARGET)
    building.add(lowering, "r", Effort.UNOPTIMISED, updates=(product,))
    (thunk,) = lowering.thunks
    assert isinstance(thunk, KernelThunk)
    assert thunk.arguments == (unused, beside, product, operand, CANCELLATION)
    assert (thunk.reads, thunk.writes, thunk.updates) == ((operand, beside), (product,), (product,))

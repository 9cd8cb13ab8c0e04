"""Programs that are run on a device, with arguments, by what they are about."""

import functools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.conformance.sweep.draws import drawing
from tests.corpus.jax.programs import lower
from tests.kernels.corpora import CORPORA
from tests.property.random_programs.control import STEPS
from tests.property.random_programs.graphs import Program as Drawn
from tests.property.random_programs.graphs import grown
from tests.unit.codegen.compiled import imported
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloModule

Program = tuple[str, Callable[[], tuple[HloModule, list[Any]]]]
"""A name, and what makes a module with its arguments."""

RANDOM_PROGRAMS = 150


def arguments_of(module: HloModule) -> list[Any]:
    """Return arrays for the parameters of a module, which are no tuples."""
    return [
        drawing.array(shape.element_type, shape.dimensions, number, special=False)
        for number, shape in enumerate(module.entry_program_shape.parameters)
    ]


def of_corpus(name: str) -> Iterator[Program]:
    """Yield the programs of a corpus for one device, without tuples or a state's random numbers."""
    for each, module in CORPORA[name]():
        shapes = module.entry_program_shape.parameters
        is_alone = module.grid.size == 1
        if is_alone and all(shape.is_array for shape in shapes) and not _draws(module):
            yield each, functools.partial(_with_arguments, module)


def _draws(module: HloModule) -> bool:
    draws = (Opcode.RNG, Opcode.RNG_GET_AND_UPDATE_STATE)
    return any(each.opcode in draws for each in module.instructions())


def _with_arguments(module: HloModule) -> tuple[HloModule, list[Any]]:
    return module, arguments_of(module)


def drawn(first: int, count: int) -> Iterator[tuple[str, Drawn]]:
    """Yield random programs by their seeds."""
    for seed in range(first, first + count):
        chance = random.Random(seed)
        yield f"seed {seed}", grown(chance, STEPS, chance.randint(1, 12))


def _f32(*sizes: int) -> Any:
    return np.random.default_rng(len(sizes)).standard_normal(sizes).astype(np.float32)


Table = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]
"""Functions of JAX with arguments, by names."""


def _stated(table: Table) -> Iterator[Program]:
    for name, (function, arguments) in table.items():
        yield name, functools.partial(_lowered, function, arguments)


def _lowered(function: Callable[..., Any], arguments: Any) -> tuple[HloModule, list[Any]]:
    import jax

    given = [np.asarray(each) for each in arguments]
    with jax.enable_x64(True):
        return imported(lower(function, *given)), given


def kernels() -> Iterator[Program]:
    """Yield programs of every class of kernels, small and as large as a device has threads."""
    import jax
    import jax.numpy as jnp

    table: Table = {}
    for sizes in ((1,), (1000,), (1 << 20,), ((1 << 20) + 3,)):
        table[f"elements {sizes}"] = lambda x: jnp.tanh(x) * x + 1, (_f32(*sizes),)
    for sizes in ((3, 7), (64, 1000), (5, 5000), (4096, 33), (2, 1 << 19), (1000, 1000)):
        x = _f32(*sizes)
        table[f"sum of rows {sizes}"] = lambda x: jnp.sum(x, axis=1), (x,)
        table[f"sum of columns {sizes}"] = lambda x: jnp.sum(x, axis=0), (x,)
        table[f"sum of all {sizes}"] = jnp.sum, (x,)
        table[f"maximum of rows {sizes}"] = lambda x: jnp.max(x, axis=1), (x,)
        table[f"argmax of rows {sizes}"] = lambda x: jnp.argmax(x, axis=1), (x,)
        table[f"softmax {sizes}"] = lambda x: jax.nn.softmax(x, axis=1), (x,)
        table[f"norm {sizes}"] = _norm, (x,)
        table[f"transpose {sizes}"] = lambda x: x.T + 1, (x,)
        table[f"cumsum {sizes}"] = lambda x: jnp.cumsum(x, axis=1), (x,)
        table[f"sort {sizes}"] = lambda x: jnp.sort(x, axis=1), (x,)
    wide = _f32(64, 500)
    for dtype in ("bfloat16", "float16", "float64", "int8", "int32", "int64", "complex64"):
        x = wide.astype(jnp.dtype(dtype))
        table[f"sum of rows {dtype}"] = lambda x: jnp.sum(x, axis=1), (x,)
        table[f"transpose {dtype}"] = lambda x: x.T, (x,)
        table[f"reverse and pad {dtype}"] = lambda x: jnp.pad(x[::-1], 1), (x,)
        table[f"concatenate {dtype}"] = lambda x: jnp.concatenate([x, x[:5], -x]), (x,)
        table[f"small dot {dtype}"] = lambda x: x[:33] @ x.T, (x[:, :40],)
    for depth in (20, 64, 128):
        table[f"small dot that goes on {depth}"] = (
            lambda x, y, z: jax.lax.select(z > 0, jnp.tanh(x @ y), z),
            (_f32(128, depth), _f32(depth, 512), _f32(128, 512)),
        )
    index = np.random.default_rng(1).integers(-5, 70, 300).astype(np.int32)
    table["gather"] = lambda x, i: x[i], (wide, index)
    table["gather that drops"] = lambda x, i: x.at[i].get(mode="fill"), (wide, index)
    table["scatter"] = lambda x, i, u: x.at[i].set(u[: len(i)]), (wide, index[:40], wide)
    table["scatter-add"] = lambda x, i: x.at[i].add(1.5), (wide, index)
    table["update in place"] = (
        lambda x: jax.lax.dynamic_update_slice(x, x[:2, :3], (60, 480)),
        (wide,),
    )
    table["window"] = (
        lambda x: jax.lax.reduce_window(x, 0.0, jax.lax.add, (3, 3), (2, 2), "SAME"),
        (wide,),
    )
    table["loop"] = lambda x: jax.lax.fori_loop(0, 20, lambda i, y: y * 0.5 + i, x), (wide,)
    table["conditional"] = lambda x: jax.lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), (wide,)
    table["random bits"] = lambda k: jax.random.bits(k, (1000,)), (np.array([1, 2], np.uint32),)
    table["top k"] = lambda x: jax.lax.top_k(x, 5), (wide,)
    yield from _stated(table)


def _norm(x: Any) -> Any:
    import jax.numpy as jnp
    from jax import lax

    mean = jnp.mean(x, axis=-1, keepdims=True)
    spread = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) * lax.rsqrt(spread + 1e-5)


def libraries() -> Iterator[Program]:
    """Yield products, convolutions, Fourier transforms and factorisations."""
    import jax
    import jax.numpy as jnp

    highest: dict[str, Any] = {"precision": jax.lax.Precision.HIGHEST}
    table: Table = {}
    for m, k, n in ((1, 1, 1), (3, 5, 7), (64, 64, 64), (129, 257, 65), (512, 512, 512)):
        x, y = _f32(m, k), _f32(k, n)
        table[f"dot {m} {k} {n}"] = lambda x, y: jnp.dot(x, y, **highest), (x, y)
        table[f"dot with epilogue {m} {k} {n}"] = (
            lambda x, y: jax.nn.relu(jnp.dot(x, y, **highest) + 1),
            (x, y),
        )
    x, y = _f32(40, 30), _f32(40, 50)
    table["dot of transposed"] = lambda x, y: jnp.dot(x.T, y, **highest), (x, y)
    table["dot to transposed"] = lambda x, y: jnp.dot(y.T, x, **highest).T, (x, y)
    batch = _f32(6, 20, 30)
    table["batched dot"] = lambda x: jnp.einsum("bij,bkj->bik", x, x, **highest), (batch,)
    table["dot of two batches"] = lambda x: jnp.einsum("bij,bik->ijk", x, x, **highest), (batch,)
    table["vector and matrix"] = lambda x, y: jnp.dot(x, y, **highest), (_f32(30), _f32(30, 20))
    table["empty dot"] = lambda x: jnp.dot(x[:, :0], x[:0]), (_f32(4, 4),)
    for dtype in ("float64", "bfloat16", "float16", "complex64", "complex128", "int8", "int32"):
        x = (_f32(33, 17) * 4).astype(jnp.dtype(dtype))
        table[f"dot {dtype}"] = lambda x: jnp.dot(x, x.T, **highest), (x,)
    image, kernel = _f32(2, 9, 11, 3), _f32(3, 3, 3, 4)
    form: dict[str, Any] = {"dimension_numbers": ("NHWC", "HWIO", "NHWC"), **highest}
    forms: dict[str, dict[str, Any]] = {
        "same": {"padding": "SAME", "window_strides": (1, 1)},
        "strides": {"padding": "VALID", "window_strides": (2, 1)},
        "dilated": {"padding": "SAME", "window_strides": (1, 1), "rhs_dilation": (2, 2)},
        "transposed": {
            "padding": ((2, 1), (1, 2)),
            "window_strides": (1, 1),
            "lhs_dilation": (2, 2),
        },
    }
    for name, options in forms.items():
        table[f"convolution {name}"] = (
            lambda x, y, options=options: jax.lax.conv_general_dilated(x, y, **options, **form),
            (image, kernel),
        )
    table["depthwise convolution"] = (
        lambda x, y: jax.lax.conv_general_dilated(
            x, y, (1, 1), "SAME", feature_group_count=3, **form
        ),
        (image, _f32(3, 3, 1, 6)),
    )
    table["convolution of one dimension"] = (
        lambda x, y: jax.lax.conv_general_dilated(
            x, y, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"), **highest
        ),
        (_f32(2, 20, 3), _f32(5, 3, 4)),
    )
    transforms: dict[str, Callable[..., Any]] = {
        "fft": jnp.fft.fft,
        "ifft": jnp.fft.ifft,
        "rfft": jnp.fft.rfft,
        "irfft": jnp.fft.irfft,
        "fft2": jnp.fft.fft2,
        "rfftn": jnp.fft.rfftn,
    }
    for name, transform in transforms.items():
        for size in (16, 30, 97):
            table[f"{name} {size}"] = transform, (_f32(3, 4, size),)
    square = _f32(5, 12, 12)
    symmetric = square @ square.transpose(0, 2, 1) + 12 * np.eye(12, dtype=np.float32)
    for dtype in ("float32", "float64", "complex64"):
        x = symmetric.astype(dtype)
        table[f"cholesky {dtype}"] = jnp.linalg.cholesky, (x,)
        table[f"triangular solve {dtype}"] = (
            lambda x: jax.scipy.linalg.solve_triangular(x, x, lower=True),
            (x[0],),
        )
        table[f"eigenvalues {dtype}"] = jnp.linalg.eigvalsh, (x,)
        table[f"singular values {dtype}"] = (lambda x: jnp.linalg.svd(x, compute_uv=False), (x,))
        table[f"qr {dtype}"] = lambda x: jnp.abs(jnp.linalg.qr(x)[1]), (x,)
        table[f"solve {dtype}"] = jnp.linalg.solve, (x, x[..., :3])
        table[f"determinant {dtype}"] = jnp.linalg.slogdet, (x,)
    yield from _stated(table)

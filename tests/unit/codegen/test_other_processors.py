"""Whole programs compiled for other processors than the host, and run where it can run them."""

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.jax.programs import lower
from tests.processors import HOST, MACHINES, assembles, runs
from tests.unit.codegen.compiled import imported, on_cpu
from xla_server.backends.compiled.compilation import compile_module
from xla_server.backends.compiled.cpu import Cpu
from xla_server.codegen.compiler.symbols import undefined_symbols
from xla_server.codegen.kernel import kernel_object
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.namespace import vocabulary
from xla_server.codegen.routines.contraction.gemm_tiles import heights
from xla_server.target.target import Target

_RANDOM = np.random.default_rng(2)
_ORDER = "NHWC", "HWIO", "NHWC"
_ROWS = _RANDOM.integers(0, 50, 300).astype(np.int32)


def _drawn(*sizes: int) -> Any:
    return _RANDOM.standard_normal(sizes).astype(np.float32)


def _convolve(x: Any, w: Any) -> Any:
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=_ORDER)


PROGRAMS: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "product": (lambda a, b: a @ b, (_drawn(50, 70), _drawn(70, 45))),
    "product of bytes": (
        lambda a, b: lax.dot(a, b, preferred_element_type=np.int32),
        tuple(_RANDOM.integers(-99, 99, (2, 40, 40)).astype(np.int8)),
    ),
    "product of a vector": (lambda a, b: a @ b, (_drawn(300, 200), _drawn(200, 1))),
    "convolution at points": (_convolve, (_drawn(1, 14, 14, 32), _drawn(3, 3, 32, 32))),
    "convolution by tiles": (_convolve, (_drawn(1, 9, 9, 3), _drawn(5, 5, 3, 20))),
    "softmax": (lambda x: jax.nn.softmax(x, axis=1), (_drawn(30, 33),)),
    "columns added where indices say": (
        lambda x, more: jax.numpy.asarray(x).at[_ROWS].add(more),
        (_drawn(50, 4096), _drawn(300, 4096)),
    ),
    "pad of a long row": (lambda x: jax.numpy.pad(-x, 1), (_drawn(1 << 18),)),
    "triangular systems": (
        lambda a, b: jax.scipy.linalg.solve_triangular(a + 9 * np.eye(700, dtype=a.dtype), b),
        (_drawn(700, 700) / 700, _drawn(700, 5003)),
    ),
    "windows": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (3, 9), (1, 1), "SAME"),
        (_drawn(600, 300),),
    ),
    "Fourier transform": (lambda x: abs(jax.numpy.fft.rfft(x)), (_drawn(40, 60),)),
}


@assembles
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_compile_for_any_processor_and_run_where_the_host_can(
    name: str, program: str
) -> None:
    machine = MACHINES[name]
    function, arguments = PROGRAMS[program]
    module = imported(lower(function, *arguments))
    thunks = kernels_of(compile_module(module, target=Target.of(machine)).code)
    codes = [kernel_object(thunk.kernel, machine) for thunk in thunks]
    known = vocabulary(machine).shared
    called = {symbol for code in codes for symbol in undefined_symbols(code) & known.keys()}
    assert all(known[symbol].object_code(machine) for symbol in called)
    text = " ".join(thunk.source for thunk in thunks)
    tiles = [int(count) for count in re.findall(r"gemm_tile_f32_(\d+)x", text)]
    assert bool(tiles) == (program == "product")
    assert set(tiles) <= set(heights(machine))
    if runs(machine):
        (found,) = on_cpu(module, arguments, Cpu(target=Target.of(machine)))
        exact = function(*(argument.astype(float) for argument in arguments))
        np.testing.assert_allclose(found, exact, rtol=0, atol=1e-3)


@pytest.mark.parametrize("program", PROGRAMS)
def test_machines_that_differ_in_cores_compute_the_same_bits(program: str) -> None:
    function, arguments = PROGRAMS[program]
    module = imported(lower(function, *arguments))
    found = [
        on_cpu(
            module,
            arguments,
            Cpu(target=Target.of(dataclasses.replace(HOST, cores=cores)), threads=2),
        )
        for cores in (2, 128)
    ]
    assert_equal_bits(found[0][0], found[1][0])

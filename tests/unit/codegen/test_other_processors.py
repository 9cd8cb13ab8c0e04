"""Whole programs with the tiles of processors that have less than the host."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processors import assembles, environment

PROGRAM = """
import jax, numpy as np
from jax import lax
from tests.corpus.jax_programs import lower
from tests.unit.codegen.compiled import imported, on_cpu
from xla_server.backends.compilation import compile_module
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.routines.gemm_tiles import heights

ORDER = "NHWC", "HWIO", "NHWC"

def check(function, *arguments):
    module = imported(lower(function, *arguments))
    text = " ".join(row.source for row in kernels_of(compile_module(module).code))
    (found,) = on_cpu(module, arguments)
    exact = function(*(argument.astype(float) for argument in arguments))
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-3)
    return text

random = np.random.default_rng(2)
def drawn(*sizes):
    return random.standard_normal(sizes).astype(np.float32)

def convolve(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=ORDER)

text = check(lambda a, b: a @ b, drawn(50, 70), drawn(70, 45))
assert any(f"gemm_tile_f32_{height}x" in text for height in heights())
check(lambda a, b: lax.dot(a, b, preferred_element_type=np.int32),
      *random.integers(-99, 99, (2, 40, 40)).astype(np.int8))
check(convolve, drawn(1, 14, 14, 32), drawn(3, 3, 32, 32))
check(convolve, drawn(1, 9, 9, 3), drawn(5, 5, 3, 20))
check(lambda x: jax.nn.softmax(x, axis=1), drawn(30, 33))
print(*heights())
"""
HEIGHTS = {"sse2": "6 4 2", "avx2": "6 4 2"}


@assembles
@pytest.mark.parametrize("name", HEIGHTS)
def test_programs_compute_the_same_with_less(name: str, tmp_path: Path) -> None:
    variables = environment(name) | {"XLA_SERVER_COMPILATION_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env=os.environ | variables,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == HEIGHTS[name]

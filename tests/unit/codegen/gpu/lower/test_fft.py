"""Fourier transforms for a GPU: the library's plans, the kernels around them, and results."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from tests.cuda.checks.outcomes import assert_near
from tests.cuda_twin.lowered import grids, lowered, through_host
from tests.cuda_twin.rows import plans, results_of
from tests.unit.codegen.compiled import built, imported, interpreted
from xla_client import ops
from xla_contract.ops.linear_algebra.fft import FftType
from xla_contract.types.element_type import ElementType
from xla_server.codegen.gpu.lower import fft
from xla_server.codegen.gpu.plans.library_plans import FftPlan


def numbers(*sizes: int) -> Any:
    drawn = np.random.default_rng(sizes[-1]).standard_normal((2, *sizes)).astype(np.float32)
    return drawn[0] + 1j * drawn[1]


TRANSFORMS: dict[str, tuple[Callable[[Any], Any], int, int]] = {
    "fft": (jnp.fft.fft, 1, 0),
    "ifft": (jnp.fft.ifft, 1, 1),
    "fft2": (jnp.fft.fft2, 1, 0),
    "ifft2": (jnp.fft.ifft2, 1, 1),
    "rfft": (lambda x: jnp.fft.rfft(x.real), 1, 1),
    "rfft2": (lambda x: jnp.fft.rfft2(x.real), 1, 1),
    "irfft": (jnp.fft.irfft, 1, 1),
    "irfft of an odd number": (lambda x: jnp.fft.irfft(x, 2 * x.shape[-1] - 1), 1, 1),
    "irfft2": (jnp.fft.irfft2, 2, 2),
}
"""Functions, with the numbers of their plans and kernels."""


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("sizes", [(3, 8), (2, 4, 9), (2, 1, 3, 5)])
def test_results_are_those_of_the_interpreter(name: str, sizes: Sequence[int]) -> None:
    function, plan_count, kernel_count = TRANSFORMS[name]
    x = numbers(*sizes)
    module = imported(lower(function, x))
    code = lowered(module)
    assert (len(plans(code)), len(grids(code))) == (plan_count, kernel_count)
    assert_near(results_of(code, [x]), interpreted(module, [x]))


def test_an_operand_is_not_written_to() -> None:
    x = numbers(3, 9)
    module = imported(lower(lambda x: (jnp.fft.irfft(x), x + 1, jnp.fft.ifft(x)), x))
    assert_near(results_of(lowered(module), [x]), interpreted(module, [x]))


def test_lines_without_elements_are_not_transformed() -> None:
    x = numbers(3, 8)[:0]
    assert lowered(built(lambda x: ops.fft(x, FftType.FFT, (8,)), (x,))).thunks == []


def test_what_the_library_does_not_have_goes_through_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    too_large = FftPlan(ElementType.C64, 1 << 31, (8,), is_inverse=False)
    monkeypatch.setattr(fft, "plans_of", lambda i: (too_large,))
    code = lowered(built(lambda x: ops.fft(x, FftType.FFT, (8,)), (numbers(3, 8),)))
    assert through_host(code)
    assert plans(code) == []

"""Every function of jax.numpy, jax.numpy.linalg and jax.numpy.fft gives jaxlib's numbers."""

import pytest

from tests.conformance.sweep.draws import jaxlib
from tests.corpus.jax import numpy_arrays, numpy_elementwise, numpy_families
from tests.corpus.jax.values import Builder

PROGRAMS = (
    *numpy_elementwise.PROGRAMS,
    *numpy_arrays.PROGRAMS,
    *numpy_families.PROGRAMS,
)


@pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
@pytest.mark.parametrize("builder", PROGRAMS, ids=lambda builder: builder.__name__)
def test_gives_jaxlib_s_numbers(builder: Builder, x64: bool) -> None:
    jaxlib.check([builder], x64=x64)


def test_every_function_has_a_call_or_a_reason() -> None:
    import jax.numpy as jnp

    jaxlib.assert_total(
        {"": jnp, "linalg.": jnp.linalg, "fft.": jnp.fft},
        PROGRAMS,
        numpy_families.NOT_A_PROGRAM,
    )

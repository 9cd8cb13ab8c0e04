"""Every function of jax.lax and jax.lax.linalg gives jaxlib's numbers."""

import pytest

from tests.conformance.sweep.draws import jaxlib
from tests.corpus.jax import lax_arrays, lax_elementwise
from tests.corpus.jax.values import Builder

PROGRAMS = (*lax_elementwise.PROGRAMS, *lax_arrays.PROGRAMS)


@pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
@pytest.mark.parametrize("builder", PROGRAMS, ids=lambda builder: builder.__name__)
def test_gives_jaxlib_s_numbers(builder: Builder, x64: bool) -> None:
    jaxlib.check([builder], x64=x64)


def test_every_function_has_a_call_or_a_reason() -> None:
    from jax import lax

    jaxlib.assert_total({"": lax, "linalg.": lax.linalg}, PROGRAMS, lax_arrays.NOT_A_PROGRAM)

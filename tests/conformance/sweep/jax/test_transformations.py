"""Derivatives, batches, loops and branches of JAX give jaxlib's numbers."""

import pytest

from tests.conformance.sweep.draws import jaxlib
from tests.corpus.jax import transformations
from tests.corpus.jax.values import Builder


@pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
@pytest.mark.parametrize("builder", transformations.PROGRAMS, ids=lambda builder: builder.__name__)
def test_gives_jaxlib_s_numbers(builder: Builder, x64: bool) -> None:
    jaxlib.check([builder], x64=x64)

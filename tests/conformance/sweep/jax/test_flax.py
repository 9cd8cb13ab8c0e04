"""Layers, models and steps of training in flax give jaxlib's numbers."""

import pytest

from tests.conformance.sweep.draws import jaxlib
from tests.corpus.jax import flax_programs
from tests.corpus.jax.values import Builder

PROGRAMS = flax_programs.PROGRAMS
WRITTEN_FOR = "0.12.8"


@pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
@pytest.mark.parametrize("builder", PROGRAMS, ids=lambda builder: builder.__name__)
def test_gives_jaxlib_s_numbers(builder: Builder, x64: bool) -> None:
    jaxlib.check([builder], x64=x64, tolerance=jaxlib.IN_F32)


def test_every_layer_of_linen_has_a_call_or_a_reason() -> None:
    import flax
    import flax.linen

    if flax.__version__ == WRITTEN_FOR:
        jaxlib.assert_total({"": flax.linen}, PROGRAMS, flax_programs.NOT_A_PROGRAM)

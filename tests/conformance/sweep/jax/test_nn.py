"""Every function of jax.nn, jax.nn.initializers and jax.image gives jaxlib's numbers."""

import pytest

from tests.conformance.sweep.draws import jaxlib
from tests.corpus.jax import network_programs
from tests.corpus.jax.values import Builder

PROGRAMS = network_programs.PROGRAMS


@pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
@pytest.mark.parametrize("builder", PROGRAMS, ids=lambda builder: builder.__name__)
def test_gives_jaxlib_s_numbers(builder: Builder, x64: bool) -> None:
    inside = builder is network_programs.attention
    tolerance = jaxlib.IN_F32 if inside else jaxlib.TOLERANCE
    jaxlib.check([builder], x64=x64, tolerance=tolerance)


def test_every_function_has_a_call_or_a_reason() -> None:
    import jax.image
    import jax.nn

    jaxlib.assert_total(
        {"": jax.nn, "initializers.": jax.nn.initializers, "image.": jax.image},
        PROGRAMS,
        network_programs.NOT_A_PROGRAM,
    )

"""Every function of jax.random gives jaxlib's numbers, with every kind of keys."""

import pytest

from tests.conformance.sweep.draws import jaxlib
from tests.corpus.jax import random_programs
from tests.corpus.jax.values import Builder

PROGRAMS = random_programs.PROGRAMS


@pytest.mark.parametrize("x64", [False, True], ids=["x32", "x64"])
@pytest.mark.parametrize("builder", PROGRAMS, ids=lambda builder: builder.__name__)
def test_gives_jaxlib_s_numbers(builder: Builder, x64: bool) -> None:
    jaxlib.check([builder], x64=x64)


def test_every_function_has_a_call_or_a_reason() -> None:
    from jax import random

    jaxlib.assert_total({"": random}, PROGRAMS[:1], random_programs.NOT_A_PROGRAM)

"""No pass changes what a program computes: each may be left out, and all together."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.sweep.draws.depth import FULL, drawn
from tests.corpus.jax.programs import lower
from tests.corpus.jax.vocabulary import GROUPS
from tests.processors import TARGET
from tests.property.random_programs.control import STEPS as RANDOM_STEPS
from tests.property.random_programs.graphs import assert_alike, programs
from tests.unit.codegen.compiled import imported, interpreted, on_cpu
from xla_server.backends.compile_options import CompileOptions
from xla_server.backends.compiled.compilation import steps_of
from xla_server.ir.importer import import_module
from xla_server.passes.framework.fixpoint import Fixpoint, Pass
from xla_server.passes.framework.selection import PassOptions
from xla_server.passes.pipeline import NEEDED

STEPS, _ = steps_of(TARGET)


def names(steps: tuple[Pass, ...]) -> Iterator[str]:
    """The passes that a program may have left out."""
    for step in steps:
        if isinstance(step, Fixpoint):
            yield from names(step.passes)
        if step.name not in NEEDED:
            yield step.name


VARIANTS = {
    "none_optional": PassOptions(level=0),
    "no_fusion": PassOptions(level=1),
    **{name: PassOptions(disabled=frozenset({name})) for name in dict.fromkeys(names(STEPS))},
}
PROGRAMS = 1 if not FULL else None
"""Number of programs of each group of real programs."""


@drawn(40, 3000)
@given(st.data())
def test_random_programs_compute_the_same(data: st.DataObject) -> None:
    program = data.draw(programs(RANDOM_STEPS))
    options = VARIANTS[data.draw(st.sampled_from(sorted(VARIANTS)))]
    module = import_module(program.proto)
    ours = on_cpu(module, program.arguments, options=CompileOptions(options))
    theirs = interpreted(module, program.arguments)
    for mine, other, error in zip(ours, theirs, program.errors, strict=True):
        assert_alike(mine, other, error)


@pytest.mark.parametrize("variant", VARIANTS)
def test_real_programs_compute_the_same(variant: str) -> None:
    number = list(VARIANTS).index(variant)
    options = CompileOptions(VARIANTS[variant])
    groups = GROUPS if FULL or number < 2 else GROUPS[number % len(GROUPS) :][:1]
    for group in groups:
        for name, (function, *arguments) in list(group().items())[number % 3 :][:PROGRAMS]:
            module = imported(lower(function, *arguments))
            flat: list[Any] = [np.asarray(argument) for argument in arguments]
            pairs = zip(
                on_cpu(module, flat, options=options), interpreted(module, flat), strict=True
            )
            for ours, theirs in pairs:
                wide = np.asarray(ours, np.complex128), np.asarray(theirs, np.complex128)
                np.testing.assert_allclose(*wide, rtol=3e-4, atol=3e-5, err_msg=name)

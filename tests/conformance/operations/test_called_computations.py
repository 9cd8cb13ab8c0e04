"""Computations on scalars with more than a formula in them, where XLA takes them."""

import pytest

from tests.conformance.oracle import assert_close, evaluated, run_on_xla
from tests.corpus.hlo_text import parse_hlo
from tests.unit.codegen.lower.test_called_computations import BODIES, A, program

FORMULAS = ("barrier", "bits", "array")
RANDOM = ("philox", "threefry")
"""Opcodes with random results; XLA's compiler aborts the process for most others."""


@pytest.mark.parametrize(
    ("caller", "names"),
    # Random computations depend on the order in which a reduction combines.
    [("map", FORMULAS + RANDOM), ("reduce", FORMULAS), ("sort", FORMULAS + RANDOM)],
    ids=["map", "reduce", "sort"],
)
def test_like_xla(caller: str, names: tuple[str, ...]) -> None:
    proto = parse_hlo(program(caller, {name: BODIES[name] for name in names}))
    for ours, theirs in zip(evaluated(proto, [A]), run_on_xla(proto, [A]), strict=True):
        assert_close(ours, theirs, 4)

"""The element types that `make test` takes; `make test-cuda-simulated` takes all."""

import pytest

from tests.conformance.sweep.draws.depth import FULL
from tests.unit.codegen.trace.elementwise_rows import EVERY
from xla_contract.types.element_type import ElementType as E

SLICE = (E.PRED, E.S4, E.U32, E.BF16, E.F32, E.C64)
"""One type of most ways to store and compute, without those that take longest to compile."""

every_type = pytest.mark.parametrize("kind", EVERY if FULL else SLICE, ids=lambda kind: kind.text)

floats = pytest.mark.parametrize(
    "kind",
    [kind for kind in (EVERY if FULL else SLICE) if kind.is_floating],
    ids=lambda kind: kind.text,
)

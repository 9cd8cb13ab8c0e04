"""The primitives of JAX, lowered, imported, verified, evaluated: jaxlib's numbers."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from tests.conformance.oracle import evaluated
from tests.conformance.sweep.draws.depth import FULL
from tests.corpus.jax.vocabulary import GROUPS, Group, lowered
from xla_contract.stubs import hlo_pb2

RELATIVE, ABSOLUTE = 3e-4, 3e-5
COARSER = {"bf16_dot": 2e-2}
"""XLA drops the rounding between a bf16 dot and a conversion to f32; we round after every op."""


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_gives_jaxlib_s_numbers(group: Callable[[], Group]) -> None:
    import jax

    functions = group()
    # Every second one in the slice.
    for name, serialized, arguments in itertools.islice(lowered(group), 0, None, 1 if FULL else 2):
        proto = hlo_pb2.HloModuleProto.FromString(serialized)
        wanted = jax.tree.leaves(jax.jit(functions[name][0])(*arguments))
        for ours, theirs in zip(evaluated(proto, arguments), wanted, strict=True):
            np.testing.assert_allclose(
                np.asarray(ours, np.complex128),
                np.asarray(theirs).astype(np.complex128),
                rtol=COARSER.get(name, RELATIVE),
                atol=COARSER.get(name, ABSOLUTE),
                err_msg=name,
            )

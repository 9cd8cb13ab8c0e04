"""Reductions of several arrays at once, taken apart where results are sums of their own."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from tests.unit.passes.passing import opcodes, passed, rewritten
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.passes.reductions.variadic_reduction import VariadicReduction

X = np.ones((3, 40), np.float32)
N = np.ones((3, 40), np.int32)


def _module(combine: Any, *, of_windows: bool = False) -> HloModule:
    def reduced(x: Any, n: Any) -> Any:
        start = (np.float32(0), np.int32(0))
        if of_windows:
            window = ((1, 9), (1, 2), ((0, 0), (3, 0)))
            return jax.lax.reduce_window((x, n), start, combine, *window)
        return jax.lax.reduce((x, n), start, combine, (1,))

    return import_module(hlo_pb2.HloModuleProto.FromString(lower(reduced, X, N)))


@pytest.mark.parametrize("of_windows", [False, True])
def test_independent_sums(of_windows: bool) -> None:
    before = _module(lambda a, b: (a[0] + b[0], b[1] + a[1]), of_windows=of_windows)
    after = rewritten(before, VariadicReduction(), relative=1e-6)
    opcode = Opcode.REDUCE_WINDOW if of_windows else Opcode.REDUCE
    assert opcodes(after)[str(opcode)] == 2
    assert all(
        len(i.operands) == 2 and len(i.called[0].parameters) == 2
        for i in after.entry.instructions
        if i.opcode is opcode
    )


def _largest(a: Any, b: Any) -> Any:
    return jnp.maximum(a[0], b[0]), jnp.maximum(a[1], b[1])


@pytest.mark.parametrize(
    "combine",
    [
        # One result needs both arrays.
        lambda a, b: (a[0] + b[0], a[1] + b[1] * b[1]),
        lambda a, b: (a[0] + b[0] * b[1].astype(np.float32), a[1] + b[1]),
        # The order is part of the semantics.
        lambda a, b: (a[0] - b[0], a[1] + b[1]),
        # There is no rounding, so one loop is as good.
        _largest,
    ],
)
def test_others_stay(combine: Any) -> None:
    passed(_module(combine), VariadicReduction(), fires=False)

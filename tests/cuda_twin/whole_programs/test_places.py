"""Where the instructions of programs are done: on the device, but for what only the host has."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance.sweep.draws.depth import FULL
from tests.corpus.jax.programs import lower
from tests.cuda_twin.lowered import compiled, grids, is_of_host, results_of, through_host
from tests.kernels.corpora import CORPORA
from tests.unit.codegen.compiled import interpreted
from tests.unit.codegen.lower.control.test_small_loop import (
    ROW,
    collatz,
    counts_of,
    narrow_types,
    neighbours,
    rotated,
    running_mean,
    set_and_read,
    summed_row,
    written_twice,
)
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_server.buffers.code import CANCELLATION, Branch, KernelThunk
from xla_server.codegen.gpu.lower.table import CUDA_LOWERINGS
from xla_server.codegen.gpu.lower.thunks.through_host import ThroughHost
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.ops.collectives.exchanges import EXCHANGES

NUMBERS = np.arange(50, dtype=np.int32)
KEY = np.array([7, 11], np.uint32)

DRAWN: dict[str, tuple[Callable[[Any], Any], int]] = {
    "bits": (lambda key: jax.random.bits(key, (33,)), 1),
    "split": (lambda key: jax.random.split(key, 5), 1),
    "uniform": (lambda key: jax.random.uniform(key, (33,)), 1),
    "normal": (lambda key: jax.random.normal(key, (33,)), 3),
    "categorical": (lambda key: jax.random.categorical(key, jnp.zeros(5), shape=(8,)), 4),
    "bernoulli": (lambda key: jax.random.bernoulli(key, 0.5, (4, 4)), 2),
    "integers": (lambda key: jax.random.randint(key, (33,), 0, 100), 9),
    "permutation": (lambda key: jax.random.permutation(key, 33), 12),
}
"""Draws of JAX by ThreeFry, which it writes as a loop, and how many launches they may take."""


def stated(function: Callable[..., Any], *arguments: Any) -> HloModule:
    return import_module(hlo_pb2.HloModuleProto.FromString(lower(function, *arguments)))


@pytest.mark.parametrize("name", DRAWN)
def test_what_jax_draws_is_drawn_on_the_device(name: str) -> None:
    function, most = DRAWN[name]
    module = stated(function, KEY)
    code = compiled(module)
    assert through_host(code) == []
    assert not any(isinstance(thunk, Branch) for thunk in code.thunks)
    assert len(grids(code)) <= most
    (ours,), (wanted,) = results_of(module, code, [KEY]), interpreted(module, [KEY])
    if name in ("uniform", "normal"):
        np.testing.assert_allclose(ours, wanted, rtol=1e-6)
    else:
        np.testing.assert_array_equal(ours, wanted)


def long(x: Any) -> Any:
    return jax.lax.fori_loop(0, 8_000, lambda i, y: y * 0.999 + i, x)


@pytest.mark.parametrize(
    ("function", "argument", "is_short"),
    [
        *[(each, NUMBERS, True) for each in (neighbours, written_twice, counts_of)],
        *[(each, ROW, True) for each in (running_mean, set_and_read, summed_row)],
        (rotated, ROW[:4], True),
        (narrow_types, ROW[0], True),
        (long, ROW[0], False),
        (collatz, NUMBERS[27], False),
    ],
)
def test_a_small_loop_is_one_kernel_that_polls_if_it_may_be_long(
    function: Any, argument: Any, is_short: bool
) -> None:
    module = stated(function, argument)
    code = compiled(module)
    assert through_host(code) == []
    assert not any(isinstance(thunk, Branch) for thunk in code.thunks)
    polls = [
        isinstance(thunk, KernelThunk) and CANCELLATION in thunk.arguments for thunk in code.thunks
    ]
    assert any(polls) != is_short
    found, wanted = results_of(module, code, [argument]), interpreted(module, [argument])
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours.astype(complex), theirs.astype(complex), rtol=1e-5)


def test_loops_that_share_a_launch_share_its_flag() -> None:
    pair = NUMBERS[26:28]
    module = stated(lambda x: (collatz(x[0]), collatz(x[1])), pair)
    code = compiled(module)
    (thunk,) = (
        thunk for thunk in code.thunks if isinstance(thunk, KernelThunk) and "while" in thunk.name
    )
    assert list(thunk.arguments).count(CANCELLATION) == 1
    found, wanted = (
        results_of(module, code, [NUMBERS[26:28]]),
        interpreted(module, [NUMBERS[26:28]]),
    )
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(ours, theirs)


TARGETS = {
    "RandomState": "the state belongs to the run",
    "tridiagonal_solve_perturbed_ffi": "no library has it",
    **{f"lapack_{letter}gtsv_ffi": "no library here has it" for letter in "sdcz"},
}
"""Custom calls of the corpora that the host does, and why."""

HOST: dict[Opcode, str] = {
    **dict.fromkeys((Opcode.INFEED, Opcode.OUTFEED), "queues of the session"),
    **dict.fromkeys((Opcode.SEND, Opcode.SEND_DONE), "channels of the session"),
    **dict.fromkeys((Opcode.RECV, Opcode.RECV_DONE), "channels of the session"),
    **dict.fromkeys((Opcode.PARTITION_ID, Opcode.REPLICA_ID), "the run knows its place"),
    **dict.fromkeys(EXCHANGES, "participants meet on the host"),
    Opcode.RNG_GET_AND_UPDATE_STATE: "the state belongs to the session",
    Opcode.CUSTOM_CALL: "operators' functions, and what no library has",
    Opcode.CHOLESKY: "plans that the library refuses",
    Opcode.TRIANGULAR_SOLVE: "plans that the library refuses",
    Opcode.FFT: "plans that the library refuses",
}
"""Operations that may go through the host, and why; no other may."""


def test_operations_of_the_host_alone_are_those_with_a_reason() -> None:
    always = {o for o, lower in CUDA_LOWERINGS.items() if isinstance(lower, ThroughHost)}
    sometimes = {Opcode.CUSTOM_CALL, Opcode.CHOLESKY, Opcode.TRIANGULAR_SOLVE}
    assert always == set(HOST) - sometimes - {Opcode.FFT}


# Those of matrices call every routine of LAPACK, of which libraries have some.
OF_DEVICES = [corpus for corpus in CORPORA if corpus != "matrices"]


@pytest.mark.parametrize("corpus", OF_DEVICES if FULL else ["golden", "jax"])
def test_programs_go_through_the_host_for_these_reasons_alone(corpus: str) -> None:
    for name, module in CORPORA[corpus]():
        # Participants meet on the host.
        if has_dynamic_shapes(module) or module.grid.size > 1:
            continue
        code = compiled(module)
        for origin in (code.origins[thunk] for thunk in code.thunks if is_of_host(thunk)):
            if origin.opcode is not Opcode.RNG_GET_AND_UPDATE_STATE:
                assert origin.opcode is Opcode.CUSTOM_CALL, f"{name}: {origin}"
                assert origin.attributes.target in TARGETS, f"{name}: {origin}"

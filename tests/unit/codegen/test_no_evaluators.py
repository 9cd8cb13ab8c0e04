"""Programs on the cpu platform run compiled code, never the interpreter's evaluators."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import jax
import numpy as np
import pytest

from tests.conformance.sweep.draws.depth import FULL
from tests.corpus.jax.programs import lower
from tests.corpus.jax.vocabulary import GROUPS, Group
from tests.unit.codegen.compiled import CPU, imported
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import HostThunk
from xla_server.codegen.lower.host import HOST_OPCODES, lower_collective, lower_host
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.codegen.lower.native_collectives import lower_native_collective
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ops.collectives.exchanges import EXCHANGES
from xla_server.ops.evaluators import EVALUATORS
from xla_server.passes.framework.selection import PassOptions

WAITING = {Opcode.INFEED, Opcode.OUTFEED, Opcode.SEND, Opcode.SEND_DONE, Opcode.RECV}
WAITING |= {Opcode.RECV_DONE, Opcode.RNG_GET_AND_UPDATE_STATE}
"""Others' moves, and what is kept from one execution to the next."""

STRIDE = 1 if FULL else 8
RUNS = 1 if FULL else 60
"""One of so many programs is compiled, and one of so many is run."""


def test_only_what_waits_or_remembers_is_left_to_the_host() -> None:
    assert {opcode for opcode, lower in LOWERINGS.items() if lower is lower_host} == HOST_OPCODES
    assert HOST_OPCODES >= WAITING
    assert HOST_OPCODES == WAITING
    collective = {lower_collective, lower_native_collective}
    assert {opcode for opcode, lower in LOWERINGS.items() if lower in collective} == {*EXCHANGES}


def marked() -> Group:
    """Custom calls that stand for operations."""
    row = np.ones(9, np.float32)
    placed = jax.NamedSharding(jax.make_mesh((1,), ("x",)), jax.P())
    return {
        "top_k": (lambda v: jax.lax.top_k(v, 3), row),
        "approx_max_k": (lambda v: jax.lax.approx_max_k(v, 3), row),
        "sharding": (lambda v: jax.lax.with_sharding_constraint(v + 1, placed), row),
    }


@pytest.mark.parametrize("group", [*GROUPS, marked], ids=lambda group: group.__name__)
def test_programs_have_no_rows_for_the_host_without_passes_either(
    group: Callable[[], Group],
) -> None:
    for name, (function, *arguments) in list(group().items())[:: 1 if group is marked else STRIDE]:
        module = imported(lower(function, *arguments))
        code = compile_module(module, PassOptions(level=0)).code
        assert not [thunk for thunk in code.thunks if isinstance(thunk, HostThunk)], name


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_real_programs_have_no_rows_for_the_host(group: Callable[[], Group]) -> None:
    for name, (function, *arguments) in list(group().items())[::STRIDE]:
        code = compile_module(imported(lower(function, *arguments))).code
        assert not [thunk for thunk in code.thunks if isinstance(thunk, HostThunk)], name


def test_no_evaluator_is_called_while_programs_run() -> None:
    calls = [call for group in GROUPS for call in group().values()][::RUNS]
    calls.append((lambda low, high: jax.lax.rng_uniform(low, high, (5,)), *np.float32([0, 1])))
    evaluators = {evaluate.__code__ for evaluate in EVALUATORS.values()}
    called: list[str] = []

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code in evaluators:
            called.append(frame.f_code.co_qualname)

    for function, *arguments in calls:
        module = imported(lower(function, *arguments))
        executable = CPU.compile(module, module.entry_program_shape)
        literals = [Literal.from_numpy(np.asarray(argument)) for argument in arguments]
        placed = [CPU.to_device(literal, CPU.devices[0]) for literal in literals]
        sys.setprofile(watch)
        try:
            executable.execute(
                placed,
                device=CPU.devices[0],
                options=ExecuteOptions(),
            )
        finally:
            sys.setprofile(None)
    assert not called

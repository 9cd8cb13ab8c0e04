"""Participants of small programs that run round-robin in one thread, and what collectives keep."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.corpus.grids import BACKENDS, module_of
from tests.corpus.hlo_text import parse_hlo
from tests.unit.sessions.runs.grids.collective_programs import GRID, X, reducing
from xla_contract.stubs import xla_pb2
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.cpu import Cpu
from xla_server.backends.platform import Device
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.collectives_protocol import ALWAYS_KEPT_BYTES, KEPT_BYTES, CollectivePlan
from xla_server.rpc.decode.programs import read_compile_request
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.runs.grids import grid_execution
from xla_server.sessions.runs.requests import ShardedOutput, ShardedRequest, WholeArgument
from xla_server.sessions.session import Session
from xla_server.sessions.shared_resources import SharedResources


def test_an_execution_of_a_small_program_takes_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*given: Any) -> Any:
        raise AssertionError("a participant has a thread of its own")

    monkeypatch.setattr(grid_execution, "start", start)
    session = Session(
        SharedResources(Cpu(3), Limits(max_device_bytes=1 << 20), ThreadPool(1, "execution"))
    )
    options = xla_pb2.ExecutionOptions(num_replicas=3)
    request = read_compile_request(parse_hlo(reducing()), options)
    executable = session.runner.compile(request, (), Cancellation())
    with session.data.reserve(16, "a test") as reservation:
        x = reservation.keep(
            session.engine.backend.to_device(Literal.from_numpy(X), Device(0, "cpu"))
        )
    output = ShardedOutput(join=False, sharding=None, flatten=False)
    wanted = ShardedRequest(executable, None, [WholeArgument(x, None)], output)
    outputs = session.grids.execute_sharded(wanted, Cancellation()).outputs
    for (handle,) in outputs:
        np.testing.assert_array_equal(session.data.get(handle).to_literal().to_numpy(), 3 * X)
    session.close()


@pytest.mark.parametrize(
    ("root", "threads"),
    [
        ("(f32[500,500], token[]) infeed(t)", ()),
        ("f32[500,500] dot(s, z), lhs_contracting_dims={1}, rhs_contracting_dims={0}", ()),
        ("f32[500,500,30] broadcast(s), dimensions={0,1}", (1,)),
    ],
)
def test_who_waits_for_others_or_works_for_long_has_a_thread(
    root: str, threads: Sequence[int]
) -> None:
    text = f"""HloModule working
fold {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
ENTRY e {{ z = f32[500,500] parameter(0)
  t = token[] after-all()
  s = f32[500,500] all-reduce(z), replica_groups={{{{0,1,2}}}}, to_apply=fold
  ROOT r = {root} }}
"""
    module = module_of(text, GRID)
    # On one core two of three participants would wait for the other anyway.
    for count in (1, 3):
        executable = Cpu(threads=count).compile(module, module.entry_program_shape)
        assert (executable.round_robin is not None) == (count in threads)


@pytest.mark.parametrize(("size", "bytes_each"), [(100, 448), (20_000, 0)])
def test_what_members_copy_for_others_counts_as_memory(size: int, bytes_each: int) -> None:
    module = module_of(reducing(size=size), GRID)
    memory = BACKENDS["cpu"].compile(module, module.entry_program_shape).memory
    assert memory.arena == 2 * bytes_each


def test_programs_keep_little_memory_for_their_next_executions() -> None:
    first, second, small = (CollectivePlan([]) for _ in range(3))
    small.keep("small", ALWAYS_KEPT_BYTES)
    first.keep("first", KEPT_BYTES // 2 + 1)
    assert first.idle
    second.keep("second", KEPT_BYTES // 2)
    assert (first.idle, second.idle, small.idle) == ([], ["second"], ["small"])
    second.keep("again", 1)
    first.keep("too much", KEPT_BYTES + 1)
    assert (first.idle, second.idle) == ([], ["second"])

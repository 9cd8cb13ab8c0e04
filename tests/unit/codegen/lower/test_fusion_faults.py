"""A fusion that fails to compile is compiled unfused, counted and logged."""

import dataclasses
import logging

import numpy as np
import pytest

from tests.unit.codegen.compiled import on_cpu
from xla_contract.errors import InternalError, UnimplementedError
from xla_contract.types.opcode import Opcode
from xla_server.backends.compiled.cpu import Cpu
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.codegen.kernel_ir.statements import Call
from xla_server.codegen.lower.fusion import lower_fusion
from xla_server.codegen.lower.fusion_faults import FUSION_FAULTS
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.ir.module import HloInstruction
from xla_server.ir.text.parser import parse_module

pytestmark = pytest.mark.fusion_faults

SECRET = """HloModule m
ENTRY e {
  a_secret = f32[1000] parameter(0)
  b = f32[1000] parameter(1)
  c = f32[1000] multiply(a_secret, b)
  d = f32[1000] add(c, b)
  ROOT t = (f32[1000], f32[1000]) tuple(c, d)
}
"""
LOOP = """HloModule m
body {
  s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  p = s32[] multiply(x, j)
  y = s32[] add(p, one)
  ROOT r = (s32[], s32[]) tuple(j, y)
}
test {
  s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = s32[] get-tuple-element(s), index=1
  ROOT l = pred[] compare(i, x), direction=LT
}
ENTRY e {
  n = s32[] parameter(0)
  m = s32[] parameter(1)
  s = (s32[], s32[]) tuple(n, m)
  w = (s32[], s32[]) while(s), condition=test, body=body
  ROOT x = s32[] get-tuple-element(w), index=0
}
"""
A = np.arange(1000, dtype=np.float32)
B = np.float32(3) + A


def raises(error: Exception) -> Lower:
    def lower(lowering: Lowering, i: HloInstruction) -> Tree:
        # Something of it is there already.
        lower_fusion(lowering, i)
        raise error

    return lower


def writes_nonsense(lowering: Lowering, i: HloInstruction) -> Tree:
    tree = lower_fusion(lowering, i)

    thunk = lowering.thunks.pop()
    assert isinstance(thunk, KernelThunk)
    assert isinstance(thunk.kernel, Kernel)
    nonsense = dataclasses.replace(
        thunk.kernel, body=(*thunk.kernel.body, Call(Routine("no_such", ()), ()))
    )
    lowering.add(dataclasses.replace(thunk, kernel=nonsense))
    return tree


def cpu_with(lower: Lower) -> Cpu:
    return Cpu(threads=1, lowerings={**LOWERINGS, Opcode.FUSION: lower})


def run(cpu: Cpu) -> None:
    c, d = on_cpu(parse_module(SECRET), [A, B], cpu)
    np.testing.assert_array_equal(c, A * B)
    np.testing.assert_array_equal(d, A * B + B)


@pytest.mark.parametrize(
    "lower", [raises(RuntimeError("emitter")), raises(RecursionError()), writes_nonsense]
)
def test_gives_the_same_answer_counts_and_logs(
    lower: Lower, caplog: pytest.LogCaptureFixture
) -> None:
    before = FUSION_FAULTS.count
    with caplog.at_level(logging.WARNING):
        run(cpu_with(lower))
    assert FUSION_FAULTS.count == before + 1
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "is compiled unfused" in record.getMessage()
    assert record.__dict__["incident"] in record.getMessage()
    assert record.__dict__["fusion_faults"] == before + 1
    # Neither the text of the error nor names of the program.
    assert "emitter" not in caplog.text
    assert "a_secret" not in caplog.text


def test_nothing_is_counted_where_nothing_fails() -> None:
    before = FUSION_FAULTS.count
    run(cpu_with(lower_fusion))
    assert FUSION_FAULTS.count == before


def test_a_loop_that_is_no_single_kernel_is_run_by_the_executor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ValueError

    before = FUSION_FAULTS.count
    monkeypatch.setattr("xla_server.codegen.lower.control.control.lower_small_loop", fail)
    (count,) = on_cpu(parse_module(LOOP), [np.int32(0), np.int32(5)], Cpu(threads=1))
    assert FUSION_FAULTS.count == before + 1
    i, x = np.int32(0), np.int32(5)
    with np.errstate(over="ignore"):
        while i < x:
            i += np.int32(1)
            x = x * i + np.int32(1)
    assert count == i


def test_what_fails_unfused_is_an_error() -> None:
    def fail(lowering: Lowering, i: HloInstruction) -> Tree:
        raise RuntimeError

    cpu = Cpu(threads=1, lowerings={**LOWERINGS, Opcode.FUSION: fail, Opcode.ADD: fail})
    with pytest.raises(InternalError, match="a program must compile, got a failure"):
        run(cpu)


@pytest.mark.parametrize("error", [UnimplementedError("no kernel"), MemoryError()])
def test_errors_that_are_no_faults_pass(error: Exception) -> None:
    before = FUSION_FAULTS.count
    with pytest.raises(type(error)):
        run(cpu_with(raises(error)))
    assert FUSION_FAULTS.count == before

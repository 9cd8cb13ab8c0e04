import threading

import numpy as np
import pytest

from tests.in_threads import in_threads
from tests.unit.codegen.compiled import built
from xla_client import Shape, ops
from xla_client.programs.builder import Builder, Op
from xla_contract.errors import CancelledError
from xla_contract.types.literal import Literal
from xla_server.backends.compiled.cpu import Cpu
from xla_server.backends.compiled.executable import CompiledExecutable
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.runtime.blocks import BlockPool, MemoryBlock
from xla_server.runtime.encoding import chunk_of
from xla_server.runtime.native import COPY_BYTES
from xla_server.runtime.program import MAX_IDLE_RUNS
from xla_server.target.loop_tuning import Chunks

X = np.linspace(-3, 3, 1 << 20, dtype=np.float32)


@pytest.fixture(scope="module")
def cpu() -> Cpu:
    return Cpu(threads=3)


def compiled(cpu: Cpu, function: object, *arguments: object) -> CompiledExecutable:
    module = built(function, arguments)  # type: ignore[arg-type]
    return cpu.compile(module, module.entry_program_shape)


def run(
    cpu: Cpu,
    executable: CompiledExecutable,
    *arguments: object,
    cancellation: Cancellation | None = None,
) -> object:
    device = cpu.devices[0]
    placed = [cpu.to_device(Literal.from_numpy(np.asarray(a)), device) for a in arguments]
    execution = executable.execute(
        placed,
        device=device,
        options=ExecuteOptions(cancellation=cancellation or Cancellation()),
    )
    return execution.output.value  # type: ignore[attr-defined]


def test_helpers_and_caller_together_do_every_element_once(cpu: Cpu) -> None:
    executable = compiled(cpu, lambda x: x * 2.0 + 1.0, X)
    for _ in range(20):
        np.testing.assert_array_equal(run(cpu, executable, X), X * 2 + 1)


def test_threads_share_the_copy_of_a_large_array(cpu: Cpu) -> None:
    x, at = X[: 2 * (COPY_BYTES // 4) + 9], np.int32(7)
    executable = compiled(
        cpu, lambda x, at: ops.dynamic_update_slice(x, ops.slice(x, [0], [2]), [at]), x, at
    )
    expected = x.copy()
    expected[7:9] = x[:2]
    for _ in range(20):
        np.testing.assert_array_equal(run(cpu, executable, x, at), expected)


def test_chunks_begin_with_whole_lines() -> None:
    assert [chunk_of(1 << 20, work, 0, Chunks()) for work in (1 << 22, 12000, 3000, 73, 0)] == [
        *(1, 16, 64),
        2688,
        3 << 16,
    ]


def test_executions_side_by_side_share_the_helpers(cpu: Cpu) -> None:
    executable = compiled(cpu, lambda x: ops.tanh(x) * x, X)
    expected = run(cpu, executable, X)

    def several(_: int) -> None:
        for _ in range(5):
            np.testing.assert_array_equal(run(cpu, executable, X), expected)

    in_threads(several, range(6))


def test_sums_do_not_depend_on_the_number_of_threads(cpu: Cpu) -> None:
    rows = X.reshape(1024, 1024) * np.float32(1e3)

    def sums(x: Op) -> Op:
        adds = Builder("adds")
        scalar = Shape.parse("f32[]")
        left, right = adds.parameter(0, scalar), adds.parameter(1, scalar)
        computation = adds.build(left + right)
        zero = x.builder.constant(np.float32(0))
        each = [ops.reduce(x, zero, computation, [d]) for d in (0, 1)]
        return ops.tuple([*each, ops.reduce(x, zero, computation, [0, 1])])

    one = Cpu(threads=1)
    by_one, by_three = (run(p, compiled(p, sums, rows), rows) for p in (one, cpu))
    for left, right in zip(by_one, by_three, strict=True):  # type: ignore[call-overload]
        np.testing.assert_array_equal(left, right)
    np.testing.assert_allclose(by_one[1], rows.astype(np.float64).sum(1), rtol=1e-5)  # type: ignore[index]


@pytest.mark.parametrize("sizes", ["", "100"], ids=["one kernel", "a kernel for each trip"])
def test_a_cancelled_loop_stops_between_iterations(cpu: Cpu, sizes: str) -> None:
    shape = Shape.parse(f"s32[{sizes}]")
    always, body = Builder("always"), Builder("body")
    always.parameter(0, shape)
    step = body.parameter(0, shape) + 1

    def endless(x: Op) -> Op:
        condition = always.build(always.constant(True))
        return ops.while_(condition, body.build(step), x)

    start = np.zeros(shape.dimensions, np.int32)
    executable = compiled(cpu, endless, start)
    cancellation = Cancellation()
    threading.Timer(0.2, cancellation.cancel).start()
    with pytest.raises(CancelledError):
        run(cpu, executable, start, cancellation=cancellation)


def test_a_cancelled_kernel_stops_between_its_chunks() -> None:
    """On one thread, and with helpers: the loop is one kernel that takes an hour."""
    rows = np.ones((1 << 14, 64), np.float32)

    def slow(x: Op) -> Op:
        wide = ops.broadcast_in_dim(x, [1 << 14, 64, 1 << 20], [0, 1])
        adds = Builder("adds")
        scalar = Shape.parse("f32[]")
        computation = adds.build(
            ops.tanh(adds.parameter(0, scalar) * 0.5) + ops.sin(adds.parameter(1, scalar))
        )
        return ops.reduce(wide, x.builder.constant(np.float32(0)), computation, [2])

    for threads in (1, 2):
        platform = Cpu(threads=threads)
        executable = compiled(platform, slow, rows)
        cancellation = Cancellation()
        threading.Timer(0.1, cancellation.cancel).start()
        with pytest.raises(CancelledError):
            run(platform, executable, rows, cancellation=cancellation)


def test_no_execution_starves_beside_others(cpu: Cpu) -> None:
    """Counted in executions that were done when a number of them was done in all."""
    executable = compiled(cpu, lambda x: ops.tanh(ops.sin(x)) * x, X)
    counts = [0] * 4
    enough = threading.Event()

    def work(number: int) -> None:
        while not enough.is_set():
            run(cpu, executable, X)
            counts[number] += 1
            if sum(counts) >= 160:
                enough.set()

    in_threads(work, range(len(counts)))
    assert min(counts) >= sum(counts) / len(counts) / 2


def test_runs_are_used_again_and_side_by_side_each_has_its_own(cpu: Cpu) -> None:
    rows = X.reshape(256, -1)
    executable = compiled(cpu, lambda x: ops.dot(ops.tanh(x), ops.transpose(x, [1, 0])), rows)
    expected = run(cpu, executable, rows)
    program = executable._program
    assert len(program._idle_runs) == 1
    (waiting,) = program._idle_runs
    run(cpu, executable, rows)
    assert list(program._idle_runs) == [waiting]
    for each in in_threads(lambda _: run(cpu, executable, rows), range(20)):
        np.testing.assert_array_equal(each, expected)
    assert 1 <= len(program._idle_runs) <= MAX_IDLE_RUNS


def test_memory_is_taken_for_results_and_once_for_everything_between(
    cpu: Cpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many kernels there are; and the second run keeps its values where the first did."""
    rows = np.eye(48, dtype=np.float32)

    def chain(x: Op) -> Op:
        y = x
        for _ in range(20):
            y = ops.tanh(ops.dot(y, x))
        return ops.tuple([y, ops.dot(y, x)])

    executable = compiled(cpu, chain, rows)
    assert len(executable._program.thunks) > 20
    sizes: list[int] = []
    allocate = BlockPool.allocate

    def counted(pool: BlockPool, size: int) -> MemoryBlock:
        sizes.append(size)
        return allocate(pool, size)

    device = cpu.devices[0]
    placed = [cpu.to_device(Literal.from_numpy(rows), device)]
    monkeypatch.setattr(BlockPool, "allocate", counted)
    for taken in (3, 2):
        sizes.clear()
        executable.execute(
            placed,
            device=device,
            options=ExecuteOptions(),
        )
        assert len(sizes) == taken

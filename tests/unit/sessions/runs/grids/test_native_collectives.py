"""Collectives that meet in native code: by a thread for each participant, and round-robin."""

import re
import threading
from typing import Any

import numpy as np
import pytest

from tests.corpus.grids import module_of, run_per_device, run_round_robin
from tests.processors import MACHINES
from tests.unit.sessions.runs.grids.collective_programs import EACH, GRID, LOOP, X, reducing
from xla_contract.errors import CancelledError, FailedPreconditionError
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.shape import Shape
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.assignment import assign
from xla_server.buffers.code import CollectiveThunk, HostThunk, LeaveThunk
from xla_server.buffers.listing import thunk_listing
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.execution.cancellation import Cancellation
from xla_server.runtime import program
from xla_server.sessions.runs.grids.rendezvous import Rendezvous
from xla_server.target.target import Target


def round_robin(text: str, arguments: Any, cancellation: Cancellation | None = None) -> Any:
    found = run_round_robin(module_of(text, GRID), arguments, cancellation)
    assert found is not None
    return found


def by_threads(text: str, arguments: Any, cancellation: Cancellation | None = None) -> Any:
    module = module_of(text, GRID)
    return run_per_device("cpu", module, arguments, cancellation=cancellation)


def interpreted(text: str, arguments: Any) -> Any:
    return run_per_device("interpreter", module_of(text, GRID), arguments)


both = pytest.mark.parametrize("run", [by_threads, round_robin])


@pytest.fixture
def only_native(monkeypatch: pytest.MonkeyPatch) -> None:
    def exchange(*given: Any) -> Any:
        raise AssertionError("the host exchanges values")

    monkeypatch.setattr(Rendezvous, "exchange", exchange)


def same_bits(found: Any, expected: Any) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert one.dtype == other.dtype
            assert one.tobytes() == other.tobytes()


GREATER = "pred[] compare(a, b), direction=GT"


@both
@pytest.mark.parametrize(
    ("kind", "fold"),
    [
        ("f32", "add(a, b)"),
        ("f32", "minimum(a, b)"),
        ("f64", "maximum(b, a)"),
        ("f16", "add(a, b)"),
        ("f32", "subtract(b, a)"),
        ("f32", f"subtract(a, b)\n  d = {GREATER}\n  ROOT e = f32[] select(d, c, b)"),
        ("f8e4m3fn", "add(a, b)"),
        ("c64", "add(a, b)"),
        ("c128", "subtract(a, b)"),
        ("bf16", "add(a, b)"),
        ("bf16", "multiply(a, b)"),
        ("bf16", "maximum(a, b)"),
        ("s8", "multiply(a, b)"),
        ("u64", "xor(a, b)"),
        ("pred", "or(a, b)"),
    ],
)
def test_a_fold_has_the_bits_of_the_interpreter(
    run: Any, kind: str, fold: str, request: pytest.FixtureRequest
) -> None:
    dtype = Shape.parse(f"{kind}[]").element_type.dtype
    random = np.random.default_rng(3)
    text = reducing("all-reduce(x), replica_groups={{2,0,1}}, to_apply=fold", kind, fold, 67)
    numbers = random.standard_normal((3, 67)) * 50
    numbers[:, 0], numbers[1, 1] = -0.0, np.nan if dtype.kind not in "iub" else 0
    if dtype.kind == "c":
        numbers = numbers + 1j * numbers[:, ::-1]
    arguments = [[row.astype(dtype)] for row in numbers]
    expected = interpreted(text, arguments)
    request.getfixturevalue("only_native")
    same_bits(run(text, arguments), expected)


@both
@pytest.mark.parametrize("root", ["all-reduce(x)", "reduce-scatter(x), dimensions={0}"])
@pytest.mark.parametrize(
    ("kind", "within"), [("bf16", "f32"), ("f32", "bf16"), ("f16", "f64"), ("f64", "f32")]
)
@pytest.mark.parametrize("fold", ["add(a, b)", "maximum(a, b)"])
def test_a_reducer_may_compute_in_another_floating_type(
    run: Any, root: str, kind: str, within: str, fold: str, request: pytest.FixtureRequest
) -> None:
    dtype = Shape.parse(f"{kind}[]").element_type.dtype
    text = reducing(f"{root}, replica_groups={{{{0,1,2}}}}, to_apply=fold", kind, fold, 9, within)
    numbers = np.random.default_rng(5).standard_normal((3, 9)) * 50
    arguments = [[row.astype(dtype)] for row in numbers]
    expected = interpreted(text, arguments)
    request.getfixturevalue("only_native")
    same_bits(run(text, arguments), expected)


GROUPS = "replica_groups={{2,0,1}}"


@both
@pytest.mark.parametrize(
    "root",
    [
        f"f32[6,6] all-gather(x), {GROUPS}, dimensions={{1}}",
        f"f32[18,2] all-gather(x), {GROUPS}, dimensions={{0}}",
        f"f32[2,2] reduce-scatter(x), {GROUPS}, dimensions={{0}}, to_apply=fold",
        f"f32[6,2] all-to-all(x), {GROUPS}, dimensions={{0}}",
        f"f32[6,2] collective-broadcast(x), {GROUPS}",
        "f32[6,2] collective-broadcast(x), replica_groups={{2,0}}",
        f"(f32[6,2], f32[6,2], f32[6,2]) all-to-all(x, v, x), {GROUPS}",
        "f32[6,2] all-reduce(v), replica_groups={{2,0},{1}}, to_apply=fold",
        "f32[6,2] collective-permute(x), source_target_pairs={{0,2},{2,1},{1,0}}",
        "f32[6,2] collective-permute(x), source_target_pairs={{2,1},{0,2}}",
        "f32[6,2] collective-permute(x), source_target_pairs={{2,2},{0,1}}",
        "(f32[6,2], f32[6,6]) collective-permute(x, u), source_target_pairs={{1,2},{2,1}}",
        f"(f32[18,2], f32[6,6]) all-gather(x, t), {GROUPS}, dimensions={{0}}",
        f"(f32[2,2], f32[2,6]) reduce-scatter(x, u), {GROUPS}, dimensions={{0}}, to_apply=fold",
    ],
)
def test_operands_go_where_the_interpreter_puts_them(
    run: Any, root: str, request: pytest.FixtureRequest
) -> None:
    text = f"""HloModule moving
fold {{ a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }}
ENTRY e {{ x = f32[6,2] parameter(0)
  t = f32[2,6] reshape(x)
  u = f32[6,6] parameter(1)
  v = f32[6,2] negate(x)
  ROOT r = {root} }}
"""
    random = np.random.default_rng(1)
    arguments = [
        [random.standard_normal(sizes).astype(np.float32) for sizes in ((6, 2), (6, 6))]
        for _ in range(3)
    ]
    expected = interpreted(text, arguments)
    request.getfixturevalue("only_native")
    same_bits(run(text, arguments), expected)


def test_threads_copy_a_large_operand_together(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr(program, "MAX_TURN_BYTES", 0)
    text = reducing(size=1 << 18).replace("reducing", "not_in_turns")
    random = np.random.default_rng(2)
    arguments = [[random.standard_normal(1 << 18).astype(np.float32)] for _ in range(3)]
    expected = interpreted(text, arguments)
    request.getfixturevalue("only_native")
    same_bits(by_threads(text, arguments), expected)


@pytest.mark.parametrize(
    ("root", "is_made_once"),
    [
        ("all-reduce(w), replica_groups={{0,1,2}}, to_apply=fold", True),
        ("all-reduce(w), replica_groups={{1,0},{2}}, to_apply=fold", True),
        ("collective-permute(w), source_target_pairs={{0,1},{1,2}}", False),
    ],
)
@pytest.mark.parametrize("size", [20_000, (1 << 18) + 1])
def test_who_takes_turns_reads_large_operands_before_they_are_overwritten(
    size: int, root: str, is_made_once: bool, request: pytest.FixtureRequest
) -> None:
    text = LOOP.replace("f32[4]", f"f32[{size}]")
    text = text.replace("all-reduce(v), replica_groups={{0,1,2}}, to_apply=fold", root)
    text = text.replace("  sum =", f"  w = f32[{size}] negate(v)\n  sum =")
    random = np.random.default_rng(2)
    arguments = [[random.standard_normal(size).astype(np.float32), np.uint32(5)] for _ in range(3)]
    thunks = compile_module(module_of(text, GRID)).code.thunks
    collectives = [thunk.collective for thunk in thunks if isinstance(thunk, LeaveThunk)]
    assert [each.is_made_once for each in collectives] == [is_made_once]
    expected = interpreted(text, arguments)
    same_bits(by_threads(text, arguments), expected)
    request.getfixturevalue("only_native")
    same_bits(round_robin(text, arguments), expected)


@pytest.mark.parametrize(
    ("run", "size"), [(by_threads, 4), (round_robin, 4), (round_robin, 20_000)]
)
def test_operands_of_several_shapes_meet_at_once(
    run: Any, size: int, request: pytest.FixtureRequest
) -> None:
    text = """HloModule several
fold { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[4] parameter(0)
  y = f32[2,3] parameter(1)
  ROOT r = (f32[4], f32[2,3]) all-reduce(x, y), replica_groups={{0,1,2}}, to_apply=fold }
""".replace("[4]", f"[{size}]")
    arguments = [[np.resize(X, size) * n, np.full((2, 3), n, np.float32)] for n in range(3)]
    expected = interpreted(text, arguments)
    request.getfixturevalue("only_native")
    same_bits(run(text, arguments), expected)


@pytest.mark.parametrize(
    "text",
    [
        reducing(kind="c64", fold="multiply(a, b)"),
        reducing(fold="power(a, b)"),
        reducing(size=(1 << 22) + 1),
        LOOP.replace("f32[4]", f"f32[{(1 << 18) + 1}]"),
        reducing(size=0),
    ],
)
def test_what_the_host_reduces_better_has_no_native_collective(text: str) -> None:
    thunks = compile_module(module_of(text, GRID)).code.thunks
    assert [type(thunk) for thunk in thunks if isinstance(thunk, (HostThunk, CollectiveThunk))] == [
        HostThunk
    ]


@both
def test_a_participant_knows_its_numbers(run: Any) -> None:
    text = """HloModule numbered
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] collective-broadcast(x), replica_groups={{1,0,2}}
  p = u32[] partition-id()
  n = u32[] replica-id()
  m = u32[] add(n, p)
  ROOT r = (f32[4], u32[], u32[], u32[]) tuple(y, n, p, m) }
"""
    found = run(text, EACH)
    same_bits(found, [[X * 2, *map(np.uint32, (number, 0, number))] for number in range(3)])


@both
@pytest.mark.parametrize(
    ("begun", "done"),
    [
        ("(f32[4], f32[4]) collective-permute-start(x)", "collective-permute-done(s)"),
        ("((f32[4]), f32[4]) async-start(x), calls=wrapped", "async-done(s), calls=wrapped"),
    ],
)
def test_an_operation_in_halves_meets_as_a_whole(run: Any, begun: str, done: str) -> None:
    pairs = ", source_target_pairs={{0,1},{1,2}}"
    begun += pairs if "permute" in begun else ""
    text = f"""HloModule halves
wrapped {{ w = f32[4] parameter(0)
  ROOT p = f32[4] collective-permute(w){pairs} }}
ENTRY e {{ x = f32[4] parameter(0)
  s = {begun}
  ROOT r = f32[4] {done} }}
"""
    same_bits(run(text, EACH), [[0 * X], [X], [2 * X]])


@pytest.mark.parametrize("size", [4, 20_000])
@pytest.mark.parametrize("way", ["threads", "round-robin", "host"])
def test_a_loop_hands_on_results_in_the_memory_of_operands(
    way: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reduced = "all-reduce(v), replica_groups={{0,1,2}}, to_apply=fold"
    ring = "collective-permute(v), source_target_pairs={{0,2},{2,1},{1,0}}"
    text = LOOP.replace(reduced, ring).replace("tuple(left, new)", "tuple(left, sum)")
    text = text.replace("f32[4]", f"f32[{size}]")
    code = compile_module(module_of(text, GRID)).code
    places = assign(code, frozenset()).locations
    (host,) = (thunk.host for thunk in code.thunks if isinstance(thunk, CollectiveThunk))
    assert places[host.reads[0]] == places[host.writes[0]]
    arguments = [[np.resize(x, size), np.uint32(5)] for (x,) in EACH]
    expected = interpreted(text, arguments)
    if way == "host":
        monkeypatch.setattr(Rendezvous, "records", lambda *given, **more: 0)
    same_bits((round_robin if way == "round-robin" else by_threads)(text, arguments), expected)


@both
def test_several_operations_meet_in_a_loop(run: Any, request: pytest.FixtureRequest) -> None:
    sent = "collective-permute(sum), source_target_pairs={{0,1},{1,2}}"
    back = "collective-permute(sent), source_target_pairs={{0,2},{2,1},{1,0}}"
    text = LOOP.replace("ROOT next", f"sent = f32[4] {sent}\n  back = f32[4] {back}\n  ROOT next")
    text = text.replace("tuple(left, new)", "tuple(left, both)").replace(
        "ROOT next", "both = f32[4] add(back, new)\n  ROOT next"
    )
    arguments = [[x, np.uint32(5)] for (x,) in EACH]
    expected = interpreted(text, arguments)
    request.getfixturevalue("only_native")
    same_bits(run(text, arguments), expected)


SCATTER = """\
k0 = i64(20)
k1 = i64(0)
k2 = f32(0x0)
def kernel(buffers, start, stop):
    buffer0 = peek_i64(buffers, 0)
    buffer1 = peek_i64(buffers, 1)
    buffer2 = peek_i64(buffers, 2)
    buffer3 = peek_i64(buffers, 3)
    v10 = load_i64(buffer2, 0)
    v9 = mul(v10, k0)
    v8 = to_i64(v9)
    v7 = maximum(v8, k1)
    v6 = minimum(v7, k0)
    v14 = maximum(v8, k1)
    v13 = minimum(v14, k0)
    for t1 in range(start, stop):
        for i2 in range(20):
            v11 = load_u16(buffer0, add(add(i2, v6), mul(t1, 40)))
            v5 = bf16_to_f32(v11)
            v4 = add(v5, k2)
            v15 = load_u16(buffer1, add(add(i2, v13), mul(t1, 40)))
            v12 = bf16_to_f32(v15)
            v3 = add(v4, v12)
            store_u16(buffer3, add(i2, mul(t1, 20)), f32_to_bf16(v3))
"""


def test_a_kernel_reads_the_operands_of_all_members_in_their_order() -> None:
    module = module_of(
        """HloModule scattering
fold { a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT c = bf16[] add(a, b) }
ENTRY e { x = bf16[64,40] parameter(0)
  ROOT r = bf16[64,20] reduce-scatter(x), replica_groups={{1,0}}, dimensions={1}, to_apply=fold }
""",
        DeviceGrid(2, 1),
    )
    code = compile_module(module, target=Target.of(MACHINES["avx2"])).code
    (kernel,) = kernels_of(code)
    assert [value.name for value in kernel.arguments] == ["x.0", "x.1", "position", "r.0"]
    assert kernel.source == SCATTER


def test_a_listing_says_where_participants_meet() -> None:
    code = compile_module(module_of(reducing(), GRID)).code
    lines = "\n".join(thunk_listing(code))
    assert re.search(
        r"^0 +meet r, else host and go to 2 .*\n1 +kernel r, .*\n2 +r.met:", lines, re.M
    )


@pytest.mark.parametrize("looks", [0, 1, 300])
def test_no_one_is_left_asleep(
    looks: int, monkeypatch: pytest.MonkeyPatch, only_native: None
) -> None:
    monkeypatch.setattr(program, "POLLS", looks)
    found = by_threads(LOOP, [[x, np.uint32(1500)] for (x,) in EACH])
    expected = round_robin(LOOP, [[x, np.uint32(1500)] for (x,) in EACH])
    same_bits(found, expected)


@both
def test_another_number_of_iterations_names_the_missing_participant(run: Any) -> None:
    arguments = [[X, np.uint32(trips)] for trips in (3, 2, 3)]
    for _ in range(2):
        with pytest.raises(
            FailedPreconditionError,
            match=r"^all-reduce %sum\S*: every participant of the group \{0,1,2\} must arrive, got "
            r"\{1\} ended without it$",
        ):
            run(LOOP, arguments)
    # The memory of an execution that failed is not used again.
    run(LOOP, [[X, np.uint32(2)]] * 3)


def test_collectives_of_two_branches_are_no_collective() -> None:
    text = """HloModule branches
fold { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
left { v = f32[4] parameter(0)
  ROOT left_sum = f32[4] all-reduce(v), replica_groups={{0,1,2}}, to_apply=fold }
right { v = f32[4] parameter(0)
  ROOT right_sum = f32[4] all-reduce(v), replica_groups={{0,1,2}}, to_apply=fold }
ENTRY e { x = f32[4] parameter(0)
  p = pred[] parameter(1)
  ROOT r = f32[4] conditional(p, x, x), true_computation=left, false_computation=right }
"""
    with pytest.raises(
        FailedPreconditionError,
        match=r"^all-reduce %left_sum\S*: .* \{0,1,2\} must arrive, got all participants waiting, "
        r"1 at all-reduce %right_sum",
    ):
        round_robin(text, [[X, np.bool_(number != 1)] for number in range(3)])


@both
def test_a_cancellation_ends_all(run: Any) -> None:
    cancellation = Cancellation()
    thread = threading.Thread(target=cancellation.cancel)
    thread.start()
    with pytest.raises(CancelledError):
        run(LOOP, [[X, np.uint32(2**32 - 1)]] * 3, cancellation)
    thread.join()

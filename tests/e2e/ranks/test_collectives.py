"""Programs on devices of several processes: the bits are those of one process."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xla_client as xc
from tests.corpus.hlo_programs import loop
from tests.device_programs import DeviceProgram, device_program, names
from tests.e2e.process import ServerProcess

SLICE = ["psum_groups_pairs", "ragged_all_to_all", "raw_collective_broadcast", "tp_attention_8"]
PROGRAMS = sorted({*names()} - {"nested_shard_map"}) if "RANKS" in os.environ else SLICE
"""Stored programs that take the shards that are stored. All exchange little."""

ADD = "add { a = $T[] parameter(0) b = $T[] parameter(1) ROOT s = $T[] add(a, b) }"
LAST = "last { a = $T[] parameter(0) b = $T[] parameter(1) ROOT s = $T[] subtract(b, a) }"

LARGE = {
    "all-reduce": "$T[3,8200] all-reduce(x), replica_groups={{6,1,4,3},{0,2,5,7}}, to_apply=add",
    "all-reduce by a computation": (
        "$T[3,8200] all-reduce(x), replica_groups={{7,6,5,4,3,2,1,0}}, to_apply=last"
    ),
    "all-reduce of a tuple": (
        "($T[3,8200], $T[3,8200]) all-reduce(x, x), replica_groups={}, to_apply=add"
    ),
    "all-gather": "$T[3,32800] all-gather(x), replica_groups={{6,1,4,3},{0,2,5,7}}, dimensions={1}",
    "reduce-scatter": (
        "$T[3,2050] reduce-scatter(x), replica_groups={{6,1,4,3},{0,2,5,7}}, dimensions={1}, "
        "to_apply=add"
    ),
    "all-to-all": "$T[3,8200] all-to-all(x), replica_groups={{6,1,4,3},{0,2,5,7}}, dimensions={1}",
    "all-to-all of a tuple": (
        "($T[3,8200], $T[3,8200]) all-to-all(x, y), replica_groups={{0,5},{4,1},{2,7},{6,3}}"
    ),
    "collective-permute": (
        "$T[3,8200] collective-permute(x), "
        "source_target_pairs={{0,4},{4,1},{1,6},{6,0},{2,3},{7,7}}"
    ),
    "collective-broadcast": "$T[3,8200] collective-broadcast(x), replica_groups={{5,0,1,3},{2,7}}",
}


def text_of(line: str, kind: str) -> str:
    return "\n".join(
        (
            "HloModule large",
            *(ADD, LAST),
            "ENTRY e {",
            "  x = $T[3,8200] parameter(0)",
            "  y = $T[3,8200] negate(x)",
            f"  ROOT r = {line}",
            "}",
        )
    ).replace("$T", kind)


def flat(results: Any) -> list[Any]:
    tuples = [each if isinstance(each, tuple) else (each,) for each in results]
    return [part for each in tuples for part in each]


def bits(results: Any) -> list[bytes]:
    return [part.to_numpy().tobytes() for part in flat(results)]


def answers(client: xc.Client, program: Any, grid: Any, arguments: list[Any]) -> list[bytes]:
    mesh = client.mesh((grid[0] * grid[1],), ("all",), replicas=grid[0])
    run = client.compile(program, mesh=mesh)
    return bits(run.execute_sharded(*(xc.Shards(list(each)) for each in arguments)))


def stored_answers(client: xc.Client, stored: DeviceProgram) -> list[bytes]:
    program = xc.Computation.from_serialized(stored.lowered)
    arguments = [list(value.shards) for value in stored.arguments]
    grid = stored.grid.replicas, stored.grid.partitions
    return answers(client, program, grid, arguments)


def test_ranks_of_a_machine_share_memory(ranks: ServerProcess) -> None:
    assert re.search(r"ranks \[0, 1.*\] share \d+ bytes each", ranks.log.read_text())


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_jax_have_the_bits_of_one_process(
    client: xc.Client, alone: xc.Client, name: str
) -> None:
    stored = device_program(name)
    assert stored_answers(client, stored) == stored_answers(alone, stored)


@pytest.mark.parametrize(
    ("kind", "columns"), [("f32", 8200), ("bf16", 8200), ("s8", 8200), ("f32", 360_000)]
)
@pytest.mark.parametrize("name", LARGE)
def test_large_operands_have_the_bits_of_one_process(
    client: xc.Client, alone: xc.Client, name: str, kind: str, columns: int
) -> None:
    """Those that ranks send at once, and those that wait for rank 0's word."""
    dtype = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "s8": np.int8}[kind]
    values = (np.random.default_rng(0).normal(size=(8, 3, columns)) * 50).astype(dtype)
    program = text_of(LARGE[name], kind).replace("8200", str(columns))
    program = program.replace("32800", str(4 * columns)).replace("2050", str(columns // 4))
    want = answers(alone, program, (8, 1), [values])
    for _ in range(2):
        assert answers(client, program, (8, 1), [values]) == want


FAST = {
    "s32": ("add", "multiply", "maximum", "minimum", "and", "or", "xor"),
    "u8": ("add", "minimum", "xor"),
    "s16": ("add", "multiply"),
    "pred": ("and", "or", "xor"),
    "f32": ("add", "multiply", "maximum", "subtract"),
    "f64": ("add",),
    "c64": ("add", "multiply"),
    "bf16": ("add",),
    "f16": ("multiply",),
}


@pytest.mark.parametrize(("kind", "opcode"), [(k, op) for k in FAST for op in FAST[k]])
def test_mpi_reduces_to_the_values_of_one_process(
    fast: xc.Client, alone: xc.Client, kind: str, opcode: str
) -> None:
    """Sums and products of floating numbers are rounded in another order."""
    dtype = xc.Shape.parse(f"{kind}[]").element_type.dtype
    numbers = np.random.default_rng(0).normal(size=(8, 3, 90_000))
    if dtype.kind in "iub":
        values = (numbers * 50).astype(np.int64).astype(dtype)
    else:
        values = (1 + numbers / 8).astype(dtype)
        values[3, 1, 7] = np.nan
    # Less than 16 MiB in a group go the ordinary way.
    values = np.tile(values, 8 // dtype.itemsize)
    line = (
        "($T[3,8200], $T[3,8200]) all-reduce(x, x), "
        "replica_groups={{6,1,4,3},{0,2,5,7}}, to_apply=last"
    )
    text = text_of(line, kind).replace("subtract(b, a)", f"{opcode}(b, a)")
    text = text.replace("8200", str(values.shape[2])).replace("negate(x)", "copy(x)")
    mesh = [client.mesh((8,), ("all",), replicas=8) for client in (fast, alone)]
    got, want = (
        client.compile(text, mesh=m).execute_sharded(xc.Shards([*values]))
        for client, m in zip((fast, alone), mesh, strict=True)
    )
    is_rounded = dtype.kind in "fc" and dtype.itemsize > 2 and opcode in {"add", "multiply"}
    if is_rounded:
        for one, other in zip(flat(got), flat(want), strict=True):
            np.testing.assert_allclose(one.to_numpy(), other.to_numpy(), rtol=1e-5)
    else:
        assert bits(got) == bits(want)


RING = ",".join(f"{{{number},{(number + 3) % 8}}}" for number in range(8))
SENT = f'channel_id=5, frontend_attributes={{_xla_send_recv_source_target_pairs="{{{RING}}}"}}'
PASSED_ON = loop(
    "f32[3,8200]",
    f"""t = token[] after-all()
  r = (f32[3,8200], u32[], token[]) recv(t), {SENT}
  s = (f32[3,8200], u32[], token[]) send(v, t), {SENT}
  sd = token[] send-done(s), {SENT}
  rd = (f32[3,8200], token[]) recv-done(r), {SENT}
  got = f32[3,8200] get-tuple-element(rd), index=0
  new = f32[3,8200] add(got, got)""",
    count="count = u32[] constant(4)",
)


def test_values_are_passed_on_between_ranks(client: xc.Client) -> None:
    """Each participant sends to the one three further, four times, and doubles what it gets."""
    values = np.random.default_rng(0).normal(size=(8, 3, 8200)).astype(np.float32)
    want = [(16 * values[(number - 12) % 8]).tobytes() for number in range(8)]
    assert answers(client, PASSED_ON, (1, 8), [values]) == want


MIXED = loop(
    "f32[$N]",
    "s = f32[$N] all-reduce(v), replica_groups={{0,7},{6,1},{2,5},{4,3}}, to_apply=add\n"
    f"  new = f32[$N] collective-permute(s), source_target_pairs={{{RING}}}",
    called=ADD.replace("$T", "f32"),
    count="count = u32[] constant(9)",
)


def test_runs_at_the_same_time_do_not_wait_for_each_other(
    client: xc.Client, alone: xc.Client
) -> None:
    """Small and large operands, in groups that meet in different order on each rank."""
    random = np.random.default_rng(0)
    jobs = [
        (MIXED.replace("$N", str(size)), (8, 1), [random.normal(size=(8, size)).astype(np.float32)])
        for size in (4, 40, 20_000) * 2
    ]
    want = [answers(alone, *job) for job in jobs]
    with ThreadPoolExecutor(len(jobs)) as threads:
        assert [*threads.map(lambda job: answers(client, *job), jobs)] == want

"""Every collective in every group mode on drawn grids, groups and shapes, beside a numpy model."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.grids import BACKENDS, module_of, run_per_device, run_round_robin
from xla_contract.types.devices.device_grid import DeviceGrid

Groups = list[list[int]]
Placed = tuple[DeviceGrid, str, Groups]
PLATFORMS = sorted(BACKENDS)
DTYPES = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "s8": np.dtype(np.int8),
    "u32": np.dtype(np.uint32),
    "c64": np.dtype(np.complex64),
}
SAID = {
    "replicas": "",
    "partitions": "channel_id=1, ",
    "both": "channel_id=1, ",
    "flattened": "channel_id=1, use_global_device_ids=true, ",
}
"""Attributes of an operation besides its groups, by what the groups name. With a channel they name
partitions where an operation has no global ids, and else replicas with all their partitions."""


def expanded(grid: DeviceGrid, mode: str, groups: Groups) -> Groups:
    """The groups as flattened ids, written as the table of XLA's modes is."""
    rows, columns = range(grid.replicas), range(grid.partitions)
    ids = np.arange(grid.size).reshape(grid.replicas, grid.partitions)
    if mode == "flattened":
        return groups
    if mode == "replicas":
        return [list(ids[group, p]) for p in columns for group in groups or [list(rows)]]
    if mode == "partitions":
        return [list(ids[r, group]) for r in rows for group in groups or [list(columns)]]
    return [list(ids[group].reshape(-1)) for group in groups or [list(rows)]]


@st.composite
def placements(draw: st.DrawFn, modes: Sequence[str], *, equal: bool = True) -> Placed:
    """A grid, a mode, and groups of one size unless they may differ; none for one of all."""
    grid = DeviceGrid(draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    mode = draw(st.sampled_from(modes))
    counts = {"partitions": grid.partitions, "flattened": grid.size}
    count = counts.get(mode, grid.replicas)
    if mode != "flattened" and draw(st.booleans()):
        return grid, mode, []
    ids = draw(st.permutations(range(count)))
    if equal:
        size = draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0]))
        return grid, mode, [list(ids[n : n + size]) for n in range(0, count, size)]
    ends = sorted(draw(st.sets(st.integers(1, count), max_size=3)) | {count})
    starts = [0, *ends[:-1]]
    return grid, mode, [list(ids[a:b]) for a, b in zip(starts, ends, strict=True)]


def said(mode: str, groups: Groups) -> str:
    listed = ",".join("{" + ",".join(map(str, group)) + "}" for group in groups)
    return f"{SAID[mode]}replica_groups={{{listed}}}"


def values(kind: str, count: int, sizes: Sequence[int], seed: int) -> list[Any]:
    """An array for each participant, zeros of both signs among them."""
    chance = np.random.default_rng(seed)
    dtype = DTYPES[kind]
    if dtype.kind in "iu":
        return list(chance.integers(0, 120, (count, *sizes)).astype(dtype))
    drawn = chance.choice([0.0, -0.0, 1e-3, 256.0, 2048.0, -1.5, 3.0], (count, *sizes))
    return list((drawn * chance.choice([1, 1, 1.17], (count, *sizes))).astype(dtype))


def folded(kind: str, parts: Sequence[Any]) -> Any:
    """The sum as XLA's CPU backend has it: from +0, BF16 in F32, F16 rounded at each step."""
    wide = np.dtype(np.float32) if kind == "bf16" else DTYPES[kind]
    total = np.zeros(parts[0].shape, wide)
    for part in parts:
        total = (total + part.astype(wide)).astype(wide)
    return total.astype(DTYPES[kind])


def folded_group(kind: str, parts: Sequence[Any]) -> Any:
    """The sum, or for a group of one its operand, with the signs of its zeros."""
    return parts[0] if len(parts) == 1 else folded(kind, parts)


def shape(kind: str, sizes: Sequence[int]) -> str:
    return f"{kind}[{','.join(map(str, sizes))}]"


def program(kind: str, parameters: Sequence[str], root: str) -> str:
    lines = "".join(f"  x{n} = {text} parameter({n})\n" for n, text in enumerate(parameters))
    return f"""HloModule drawn
add {{ a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT c = {kind}[] add(a, b) }}
ENTRY e {{
{lines}  ROOT root = {root} }}
"""


def in_halves(text: str, start: str, done: str) -> str:
    """The program with its root as a pair of instructions, one that starts and one that ends it."""
    head, _, _ = text.partition("  ROOT root = ")
    return f"{head}  s = {start}\n  ROOT root = {done} }}\n"


def assert_results(
    text: str, grid: DeviceGrid, arguments: list[list[Any]], expected: list[list[Any]]
) -> None:
    everywhere = [run_per_device(each, module_of(text, grid), arguments) for each in PLATFORMS]
    round_robin = run_round_robin(module_of(text, grid), arguments)
    for results in everywhere if round_robin is None else [*everywhere, round_robin]:
        for found, wanted in zip(results, expected, strict=True):
            assert len(found) == len(wanted)
            for ours, theirs in zip(found, wanted, strict=True):
                assert_equal_bits(np.asarray(ours), np.asarray(theirs))


def by_group(grid: DeviceGrid, groups: Groups, rule: Callable[[list[int], int], Any]) -> list[Any]:
    """The results of all participants, by a rule for the group and the index in it."""
    results: list[Any] = [None] * grid.size
    for group in groups:
        for place, member in enumerate(group):
            results[member] = rule(group, place)
    return results


SIZES = st.lists(st.integers(0, 5), min_size=1, max_size=3)
KINDS = st.sampled_from(sorted(DTYPES))
SEEDS = st.integers(0, 1 << 16)
GLOBAL_MODES = ["both", "flattened", "replicas"]
TWO_MODES = ["partitions", "replicas"]
few = settings(max_examples=12)


@few
@given(placements(GLOBAL_MODES, equal=False), KINDS, SIZES, SEEDS, st.booleans())
def test_all_reduce(placed: Placed, kind: str, sizes: list[int], seed: int, halves: bool) -> None:
    grid, mode, groups = placed
    xs, ys = values(kind, grid.size, sizes, seed), values(kind, grid.size, [3], seed + 1)
    one, two = shape(kind, sizes), shape(kind, [3])
    root = f"({one}, {two}) all-reduce(x0, x1), {said(mode, groups)}, to_apply=add"
    text = program(kind, [one, two], root)
    if halves:
        start = root.replace("all-reduce(", "all-reduce-start(")
        text = in_halves(text, start, f"({one}, {two}) all-reduce-done(s)")

    def rule(group: list[int], place: int) -> list[Any]:
        return [folded_group(kind, [arrays[m] for m in group]) for arrays in (xs, ys)]

    expected = by_group(grid, expanded(grid, mode, groups), rule)
    assert_results(text, grid, [list(pair) for pair in zip(xs, ys, strict=True)], expected)


@dataclasses.dataclass(frozen=True)
class Along:
    """An operation that joins or splits arrays of each group along a dimension."""

    grid: DeviceGrid
    attributes: str
    everyone: Groups
    kind: str
    part: list[int]
    dimension: int
    seed: int

    @property
    def whole(self) -> list[int]:
        """The sizes of the parts of a group, joined."""
        count = len(self.everyone[0])
        return [n * count if d == self.dimension else n for d, n in enumerate(self.part)]

    def shape(self, sizes: Sequence[int]) -> str:
        return shape(self.kind, sizes)

    def check(self, taken: list[int], text: str, rule: Callable[[list[Any], int], Any]) -> None:
        """Run a program on arrays of these sizes; `rule` has those of a group, and an index."""
        xs = values(self.kind, self.grid.size, taken, self.seed)
        expected = by_group(
            self.grid, self.everyone, lambda group, place: [rule([xs[m] for m in group], place)]
        )
        assert_results(text, self.grid, [[x] for x in xs], expected)


@st.composite
def along(draw: st.DrawFn, modes: Sequence[str]) -> Along:
    grid, mode, groups = draw(placements(modes))
    sizes, everyone = draw(SIZES), expanded(grid, mode, groups)
    dimension = draw(st.integers(0, len(sizes) - 1))
    attributes = f"{said(mode, groups)}, dimensions={{{dimension}}}"
    return Along(grid, attributes, everyone, draw(KINDS), sizes, dimension, draw(SEEDS))


@few
@given(along(GLOBAL_MODES), st.booleans())
def test_all_gather(drawn: Along, halves: bool) -> None:
    one, joined = drawn.shape(drawn.part), drawn.shape(drawn.whole)
    text = program(drawn.kind, [one], f"{joined} all-gather(x0), {drawn.attributes}")
    if halves:
        start = f"({one}, {joined}) all-gather-start(x0), {drawn.attributes}"
        text = in_halves(text, start, f"{joined} all-gather-done(s)")
    drawn.check(drawn.part, text, lambda xs, _: np.concatenate(xs, drawn.dimension))


@few
@given(along(GLOBAL_MODES))
def test_reduce_scatter(drawn: Along) -> None:
    def rule(xs: list[Any], place: int) -> Any:
        total = folded_group(drawn.kind, xs)
        return np.split(total, len(xs), drawn.dimension)[place]

    root = f"{drawn.shape(drawn.part)} reduce-scatter(x0), {drawn.attributes}, to_apply=add"
    drawn.check(drawn.whole, program(drawn.kind, [drawn.shape(drawn.whole)], root), rule)


@few
@given(along(TWO_MODES))
def test_all_to_all_of_an_array(drawn: Along) -> None:
    def rule(xs: list[Any], place: int) -> Any:
        blocks = [np.split(x, len(xs), drawn.dimension)[place] for x in xs]
        return np.concatenate(blocks, drawn.dimension)

    whole = drawn.shape(drawn.whole)
    text = program(drawn.kind, [whole], f"{whole} all-to-all(x0), {drawn.attributes}")
    drawn.check(drawn.whole, text, rule)


@few
@given(placements(TWO_MODES), KINDS, SIZES, SEEDS)
def test_all_to_all_of_a_tuple(placed: Placed, kind: str, sizes: list[int], seed: int) -> None:
    grid, mode, groups = placed
    everyone = expanded(grid, mode, groups)
    count = len(everyone[0])
    xs = values(kind, grid.size, [count, *sizes], seed)
    operand = shape(kind, sizes)
    result = f"({', '.join([operand] * count)})"
    names = ", ".join(f"x{number}" for number in range(count))
    text = program(kind, [operand] * count, f"{result} all-to-all({names}), {said(mode, groups)}")

    def rule(group: list[int], place: int) -> list[Any]:
        return [xs[m][place] for m in group]

    assert_results(text, grid, [list(x) for x in xs], by_group(grid, everyone, rule))


@few
@given(placements(TWO_MODES), KINDS, SIZES, SEEDS, st.data())
def test_collective_permute(
    placed: Placed,
    kind: str,
    sizes: list[int],
    seed: int,
    data: st.DataObject,
) -> None:
    grid, mode, _ = placed
    count = grid.partitions if mode == "partitions" else grid.replicas
    targets = data.draw(st.permutations(range(count)))
    pairs = [(s, t) for s, t in enumerate(targets) if data.draw(st.booleans())]
    xs = values(kind, grid.size, sizes, seed)
    listed = ",".join(f"{{{source},{target}}}" for source, target in pairs)
    attributes = f"{SAID[mode]}source_target_pairs={{{listed}}}"
    one = shape(kind, sizes)
    text = program(kind, [one], f"{one} collective-permute(x0), {attributes}")
    if data.draw(st.booleans()):
        start = f"({one}, {one}, u32[], u32[]) collective-permute-start(x0), {attributes}"
        text = in_halves(text, start, f"{one} collective-permute-done(s)")
    expected = [[np.zeros_like(x)] for x in xs]
    for source, target in pairs:
        for other in range(grid.replicas if mode == "partitions" else grid.partitions):
            step = -1 if mode == "partitions" else 1
            to, come = (grid.flattened(*(n, other)[::step]) for n in (target, source))
            expected[to] = [xs[come]]
    assert_results(text, grid, [[x] for x in xs], expected)


@few
@given(placements(TWO_MODES, equal=False), KINDS, SIZES, SEEDS, st.data())
def test_collective_broadcast(
    placed: Placed,
    kind: str,
    sizes: list[int],
    seed: int,
    data: st.DataObject,
) -> None:
    grid, mode, groups = placed
    left_out = len(groups) > 1 and data.draw(st.booleans())
    groups = groups[1:] if left_out else groups
    xs = values(kind, grid.size, sizes, seed)
    one = shape(kind, sizes)
    text = program(kind, [one], f"{one} collective-broadcast(x0), {said(mode, groups)}")
    sent = by_group(grid, expanded(grid, mode, groups), lambda group, _: [xs[group[0]]])
    expected = [[np.zeros_like(xs[0])] if part is None else part for part in sent]
    assert_results(text, grid, [[x] for x in xs], expected)


@few
@given(placements(TWO_MODES), st.integers(1, 2), SEEDS)
def test_ragged_all_to_all(placed: Placed, updates: int, seed: int) -> None:
    grid, mode, groups = placed
    everyone = expanded(grid, mode, groups)
    count = len(everyone[0])
    chance = np.random.default_rng(seed)
    rows, capacity, entries = 6, 3 * count * updates, count * updates
    xs = list(chance.standard_normal((grid.size, rows, 2)).astype(np.float32))
    outs = list(chance.standard_normal((grid.size, capacity, 2)).astype(np.float32))
    tables = np.zeros((grid.size, 4, entries), np.int32)
    expected = [out.copy() for out in outs]
    for group in everyone:
        for i, sender in enumerate(group):
            for j, receiver in enumerate(group):
                for u in range(updates):
                    size, start = chance.integers(0, 3), chance.integers(0, 4)
                    # Each sender has rows of its own in every receiver's output.
                    row = 3 * (i * updates + u)
                    tables[sender, 0, j * updates + u] = start
                    tables[sender, 1, j * updates + u] = size
                    tables[sender, 2, j * updates + u] = row
                    tables[receiver, 3, i * updates + u] = size
                    expected[receiver][row : row + size] = xs[sender][start : start + size]
    parameters = [f"f32[{rows},2]", f"f32[{capacity},2]", *[f"s32[{entries}]"] * 4]
    names = ", ".join(f"x{number}" for number in range(6))
    root = f"f32[{capacity},2] ragged-all-to-all({names}), {said(mode, groups)}"
    arguments = [[x, out, *table] for x, out, table in zip(xs, outs, tables, strict=True)]
    assert_results(program("f32", parameters, root), grid, arguments, [[part] for part in expected])


@few
@given(st.integers(1, 3), st.integers(1, 3))
def test_numbers_of_replica_and_partition(replicas: int, partitions: int) -> None:
    grid = DeviceGrid(replicas, partitions)
    text = """HloModule numbers
ENTRY e { r = u32[] replica-id()
  p = u32[] partition-id()
  ROOT t = (u32[], u32[]) tuple(r, p) }
"""
    expected = [[np.uint32(part) for part in grid.position(d)] for d in range(grid.size)]
    assert_results(text, grid, [[]] * grid.size, expected)


REDUCERS = {
    "maximum(a, b)": lambda x, y: np.where((x == 0) & (y == 0), x + y, np.maximum(x, y)),
    "multiply(a, b)": np.multiply,
    "subtract(b, a)": lambda x, y: y - x,
    "select(g, a, d)": lambda x, y: np.where(x > y, x, x - y),
}


@few
@given(placements(GLOBAL_MODES, equal=False), st.sampled_from(sorted(REDUCERS)), SEEDS)
@pytest.mark.parametrize("kind", ["f32", "f16"])
def test_other_reducers_are_folded_from_the_first_of_the_group(
    kind: str, placed: Placed, name: str, seed: int
) -> None:
    grid, mode, groups = placed
    xs = values(kind, grid.size, [7, 3], seed)
    xs[0][0] = np.nan
    one = shape(kind, [7, 3])
    text = program(kind, [one], f"{one} all-reduce(x0), {said(mode, groups)}, to_apply=add")
    more = f"d = {kind}[] subtract(a, b)\n  g = pred[] compare(a, b), direction=GT\n  ROOT c = "
    text = text.replace("ROOT c = ", more).replace(" add(a, b)", f" {name}")

    def rule(group: list[int], place: int) -> list[Any]:
        with np.errstate(all="ignore"):
            return [functools.reduce(REDUCERS[name], [xs[m] for m in group])]

    everyone = expanded(grid, mode, groups)
    assert_results(text, grid, [[x] for x in xs], by_group(grid, everyone, rule))


@pytest.mark.parametrize("size", [20_000, 300_001])
@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_large_arrays_are_shared_by_elements(size: int, kind: str) -> None:
    grid = DeviceGrid(1, 3)
    xs = values(kind, 3, [size], 9)
    one = shape(kind, [size])
    text = program(kind, [one], f"{one} all-reduce(x0), {said('both', [])}, to_apply=add")
    assert_results(text, grid, [[x] for x in xs], [[folded(kind, xs)]] * 3)
    split = [np.resize(x, 3 * (size // 3)) for x in xs]
    root = (
        f"{shape(kind, [size // 3])} reduce-scatter(x0), {said('both', [])}, "
        "dimensions={0}, to_apply=add"
    )
    total = np.split(folded(kind, split), 3)
    text = program(kind, [shape(kind, split[0].shape)], root)
    assert_results(text, grid, [[x] for x in split], [[part] for part in total])
    joined = shape(kind, [3 * size])
    root = f"{joined} all-gather(x0), {said('both', [])}, dimensions={{0}}"
    text = program(kind, [one], root)
    assert_results(text, grid, [[x] for x in xs], [[np.concatenate(xs)]] * 3)

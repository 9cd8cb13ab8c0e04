"""Operands that concatenates compute, and fusions that compute concatenates."""

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import opcodes, passed, rewritten, stated
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.ir.module import HloModule

FUSIONS = TARGET.tuning.fusions
SELECTED = FUSIONS.max_selected_operands

ADD = "to_apply=add"


def joined(
    count: int, sizes: str, result: str, dimension: int, formula: str, *behind: str
) -> HloModule:
    """Join `behind`, or else so many formulas of parameters."""
    lines = [f"y{n} = f32[{sizes}] {formula}(x{n})" for n in range(count)]
    names = ", ".join(f"y{n}" for n in range(count))
    concatenate = f"f32[{result}] concatenate({names}), dimensions={{{dimension}}}"
    if behind:
        lines += [f"joined = {concatenate}", *behind[:-1]]
        concatenate = behind[-1]
    return stated([f"f32[{sizes}]"] * count, concatenate, *lines)


@pytest.mark.parametrize("count", [2, SELECTED, SELECTED + 1, 30])
@pytest.mark.parametrize("formula", ["abs", "exponential"])
def test_operands_are_computed_where_they_are_stored(count: int, formula: str) -> None:
    module = joined(count, "20,40", f"{20 * count},40", 0, formula)
    assert opcodes(rewritten(module, LoopFusion(TARGET))) == {"fusion": 1}


def test_functions_of_short_runs_have_loops_of_their_own() -> None:
    count = SELECTED + 1
    short = joined(count, "200,4", f"200,{4 * count}", 1, "exponential")
    passed(short, LoopFusion(TARGET), fires=False)
    long = joined(count, "200,40", f"200,{40 * count}", 1, "exponential")
    assert opcodes(rewritten(long, LoopFusion(TARGET))) == {"fusion": 1}


def test_a_concatenate_of_many_operands_has_arguments_for_them() -> None:
    count = FUSIONS.max_instructions
    module = joined(count, "20", f"{20 * count}", 0, "abs")
    assert opcodes(rewritten(module, LoopFusion(TARGET))) == {"fusion": 1}


CONSUMERS = {
    "same places": (["f32[{n},40] negate(joined)"], True),
    "several": (
        [
            "one = f32[{n},40] negate(joined)",
            "other = f32[{n},40] abs(joined)",
            "f32[{n},40] add(one, other)",
        ],
        True,
    ),
    "transposed": (["f32[40,{n}] transpose(joined), dimensions={{1,0}}"], False),
    "reduced": (
        ["zero = f32[] constant(0)", "f32[{n}] reduce(joined, zero), dimensions={{1}}, " + ADD],
        False,
    ),
    "elsewhere": (["f32[{half},40] slice(joined), slice={{[{half}:{n}], [0:40]}}"], False),
    "two kernels": (
        [
            "one = f32[{n},40] negate(joined)",
            "other = f32[40,{n}] transpose(joined), dimensions={{1,0}}",
            "(f32[{n},40], f32[40,{n}]) tuple(one, other)",
        ],
        False,
    ),
}


@pytest.mark.parametrize("name", CONSUMERS)
def test_many_operands_are_joined_at_the_positions_of_a_kernel_or_stored(name: str) -> None:
    lines, is_inside = CONSUMERS[name]
    for count in (SELECTED + 2, 2):
        rows = 20 * count
        behind = [line.format(n=rows, half=rows // 2) for line in lines]
        module = joined(count, "20,40", f"{rows},40", 0, "abs", *behind)
        after = rewritten(module, LoopFusion(TARGET))
        inside = {part.root.opcode.value for part in after.computations if part is not after.entry}
        is_stored = "concatenate" in inside or "concatenate" in opcodes(after)
        assert is_stored is not (is_inside or count == 2), (name, count, opcodes(after))


def test_a_long_formula_is_not_repeated_for_each_of_many_operands() -> None:
    count = 30
    lines = ["n0 = f32[600,40] abs(joined)"]
    lines += [f"n{k + 1} = f32[600,40] add(n{k}, joined)" for k in range(20)]
    module = joined(count, "20,40", "600,40", 0, "abs", *lines, "f32[600,40] negate(n20)")
    assert opcodes(rewritten(module, LoopFusion(TARGET))) == {"fusion": 2}


def test_one_kernel_goes_on_with_so_many_operands() -> None:
    for count, fusions in ((FUSIONS.max_joined_operands, 1), (FUSIONS.max_joined_operands + 1, 2)):
        rows = 20 * count
        module = joined(count, "20,40", f"{rows},40", 0, "abs", f"f32[{rows},40] negate(joined)")
        assert sum(opcodes(rewritten(module, LoopFusion(TARGET))).values()) == fusions


def test_operands_of_all_concatenates_of_a_kernel_count() -> None:
    count = FUSIONS.max_joined_operands // 2 + 1
    rows = 20 * count
    names = ", ".join(f"y{n}" for n in reversed(range(count)))
    module = joined(
        count,
        "20,40",
        f"{rows},40",
        0,
        "abs",
        f"other = f32[{rows},40] concatenate({names}), dimensions={{0}}",
        f"f32[{rows},40] add(joined, other)",
    )
    after = rewritten(module, LoopFusion(TARGET))
    roots = [i.called[0].root.opcode.value for i in after.entry.instructions if i.called]
    assert sorted(roots) == ["add", "concatenate"]


@pytest.mark.parametrize(("vector", "fusions"), [(1, 1), (0, 2)])
def test_index_vectors_are_made_where_a_gather_reads_them(vector: int, fusions: int) -> None:
    count = SELECTED + 1
    sizes, result = ("30,1", f"30,{count}") if vector else ("1,30", f"{count},30")
    shape = ",".join("9" * count)
    every = ",".join(map(str, range(count)))
    lines = [f"y{n} = s32[{sizes}] negate(x{n})" for n in range(count)]
    names = ", ".join(f"y{n}" for n in range(count))
    # Vectors in the other dimension are those of a reader that does not know them as such.
    lines += [
        f"joined = s32[{result}] concatenate({names}), dimensions={{{vector}}}",
        *([] if vector else [f"turned = s32[30,{count}] transpose(joined), dimensions={{1,0}}"]),
    ]
    gather = (
        f"f32[30] gather(x{count}, {'joined' if vector else 'turned'}), offset_dims={{}}, "
        f"collapsed_slice_dims={{{every}}}, start_index_map={{{every}}}, index_vector_dim=1, "
        f"slice_sizes={{{','.join('1' * count)}}}"
    )
    module = stated([f"s32[{sizes}]"] * count + [f"f32[{shape}]"], gather, *lines)
    found = opcodes(rewritten(module, LoopFusion(TARGET)))
    assert sum(found.values()) == fusions

"""Loops that share what they read, or read each other, as one kernel."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.cuda.checks.outcomes import assert_near
from tests.cuda_twin.lowered import compiled, grids, results_of
from tests.cuda_twin.programs import TARGET as GPU
from tests.processors import TARGET
from tests.unit.codegen.compiled import interpreted
from tests.unit.passes.passing import assert_kept, opcodes, passed, rewritten, stated, tame
from xla_contract.types.opcode import Opcode
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.fusion.multi_output_fusion import MultiOutputFusion
from xla_server.ir.module import HloModule
from xla_server.target.target import Target

FUSIONS = TARGET.tuning.fusions

_ZERO = "zero = f32[] constant(0)"

TOGETHER = {
    "siblings": (
        ["f32[8,6]"],
        "(f32[8,6], f32[8,6]) tuple(a, b)",
        ["a = f32[8,6] negate(x0)", "b = f32[8,6] exponential(x0)"],
    ),
    "sums_of_rows": (
        ["f32[8,6]"],
        "(f32[8], f32[8]) tuple(a, b)",
        [
            _ZERO,
            "q = f32[8,6] multiply(x0, x0)",
            "a = f32[8] reduce(x0, zero), dimensions={1}, to_apply=add",
            "b = f32[8] reduce(q, zero), dimensions={1}, to_apply=add",
        ],
    ),
    "sums_of_columns": (
        ["f32[8,6]"],
        "(f32[6], f32[6]) tuple(a, b)",
        [
            _ZERO,
            "q = f32[8,6] multiply(x0, x0)",
            "a = f32[6] reduce(x0, zero), dimensions={0}, to_apply=add",
            "b = f32[6] reduce(q, zero), dimensions={0}, to_apply=max",
        ],
    ),
    "a_value_and_its_derivative": (
        ["f32[8,6]", "f32[8,6]"],
        "(f32[8,6], f32[8,6]) tuple(t, g)",
        [
            "t = f32[8,6] tanh(x0)",
            "q = f32[8,6] multiply(t, t)",
            "p = f32[8,6] multiply(q, x1)",
            "g = f32[8,6] subtract(x1, p)",
        ],
    ),
    "far_from_the_parameters": (
        ["f32[8,6]", "f32[8,6]"],
        "(f32[6], f32[6]) tuple(a, b)",
        [
            _ZERO,
            "r = f32[8] reduce(x1, zero), dimensions={1}, to_apply=add",
            "w = f32[8,6] broadcast(r), dimensions={0}",
            "q = f32[8,6] multiply(x0, w)",
            "a = f32[6] reduce(q, zero), dimensions={0}, to_apply=add",
            "b = f32[6] reduce(x0, zero), dimensions={0}, to_apply=add",
        ],
    ),
}

APART = {
    "nothing_in_common": (
        ["f32[8,6]", "f32[8,6]"],
        "(f32[8,6], f32[8,6]) tuple(a, b)",
        ["a = f32[8,6] negate(x0)", "b = f32[8,6] exponential(x1)"],
    ),
    "other_sizes": (
        ["f32[8,6]"],
        "(f32[8,6], f32[3,6]) tuple(a, b)",
        ["a = f32[8,6] negate(x0)", "b = f32[3,6] slice(x0), slice={[0:3], [0:6]}"],
    ),
    "rows_and_columns": (
        ["f32[6,6]"],
        "(f32[6], f32[6]) tuple(a, b)",
        [
            _ZERO,
            "a = f32[6] reduce(x0, zero), dimensions={1}, to_apply=add",
            "b = f32[6] reduce(x0, zero), dimensions={0}, to_apply=add",
        ],
    ),
    "read_at_other_places": (
        ["f32[6,6]"],
        "(f32[6,6], f32[6,6]) tuple(a, b)",
        [
            "a = f32[6,6] tanh(x0)",
            "t = f32[6,6] reverse(a), dimensions={1}",
            "b = f32[6,6] exponential(t)",
        ],
    ),
    "only_a_small_array_in_common": (
        ["f32[6]", "f32[8,6]", "f32[8,6]"],
        "(f32[8,6], f32[8,6]) tuple(a, b)",
        [
            "w = f32[8,6] broadcast(x0), dimensions={1}",
            "a = f32[8,6] add(x1, w)",
            "b = f32[8,6] subtract(x2, w)",
        ],
    ),
}


def _looped(parameters: Sequence[str], root: str, before: Sequence[str]) -> HloModule:
    module = stated(parameters, root, *before)
    LoopFusion(TARGET).apply(module)
    return module


@pytest.mark.parametrize("name", TOGETHER)
def test_together(name: str) -> None:
    module = _looped(*TOGETHER[name])
    after = rewritten(module, MultiOutputFusion(TARGET), relative=1e-6)
    fusions = [i for i in after.entry.instructions if i.shape.is_tuple and i.called]
    assert len(fusions) == 1
    assert len(fusions[0].shape.tuple_shapes) == 2


@pytest.mark.parametrize("name", APART)
def test_apart(name: str) -> None:
    passed(_looped(*APART[name]), MultiOutputFusion(TARGET), fires=False)


def test_a_chain_with_another_way_around_is_no_cycle() -> None:
    # b reads a, and what is computed from a by a kernel of another kind.
    module = _looped(
        ["f32[6,6]"],
        "(f32[6,6], f32[6,6]) tuple(a, b)",
        [
            "a = f32[6,6] tanh(x0)",
            "m = f32[6,6] dot(a, x0), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            "b = f32[6,6] atan2(a, m)",
        ],
    )
    passed(module, MultiOutputFusion(TARGET), fires=False)


def test_a_reader_of_the_same_result_under_another_shape_stays_apart() -> None:
    # The reshape would be one of the result of the fusion that reads it.
    module = stated(
        ["f32[6,6]"],
        "(f32[6,6], f32[6,6]) tuple(a, b)",
        "a = f32[6,6] tanh(x0)",
        "r = f32[36] reshape(a)",
        "s = f32[6,6] reshape(r)",
        "b = f32[6,6] atan2(a, s)",
    )
    passed(module, MultiOutputFusion(TARGET), fires=False)


def test_two_that_need_each_other_crosswise() -> None:
    module = _looped(
        ["f32[8,6]", "f32[8,6]"],
        "(f32[8,6], f32[8,6], f32[8,6], f32[8,6]) tuple(a, b, c, d)",
        [
            "a = f32[8,6] tanh(x0)",
            "b = f32[8,6] exponential(x1)",
            "c = f32[8,6] atan2(a, b)",
            "d = f32[8,6] atan2(b, a)",
        ],
    )
    rewritten(module, MultiOutputFusion(TARGET), relative=1e-6)


def test_a_loop_joins_one_of_several_results() -> None:
    # The update of a parameter reads both of its moments.
    module = _looped(
        ["f32[8,6]", "f32[8,6]", "f32[8,6]"],
        "(f32[8,6], f32[8,6], f32[8,6]) tuple(m, v, p)",
        [
            "m = f32[8,6] tanh(x0)",
            "v = f32[8,6] exponential(x0)",
            "s = f32[8,6] atan2(m, v)",
            "p = f32[8,6] add(s, x2)",
        ],
    )
    after = rewritten(module, MultiOutputFusion(TARGET), relative=1e-6)
    (fusion,) = [i for i in after.entry.instructions if i.opcode is Opcode.FUSION]
    assert len(fusion.shape.tuple_shapes) == 3


_PAIRS = (
    "a = f32[8,6] tanh(x0)",
    "b = f32[8,6] exponential(x0)",
    "c = f32[8,6] atan2(a, b)",
    "d = f32[8,6] power(b, a)",
)
"""Two loops of two results each, of which one reads both results of the other."""


def test_loops_of_several_results_that_read_each_other_are_one() -> None:
    module = _looped(["f32[8,6]"], "(f32[8,6], f32[8,6]) tuple(c, d)", _PAIRS)
    after = rewritten(module, MultiOutputFusion(TARGET), relative=1e-6)
    (fusion,) = [i for i in after.entry.instructions if i.opcode is Opcode.FUSION]
    assert len(fusion.shape.tuple_shapes) == 2


def test_loops_that_have_too_many_results_together_stay_apart() -> None:
    others = ("e = f32[8,6] logistic(x0)", "f = f32[8,6] sine(x0)")
    results = ", ".join("abcdef")
    shapes = ", ".join(["f32[8,6]"] * 6)
    module = _looped(["f32[8,6]"], f"({shapes}) tuple({results})", (*_PAIRS, *others))
    after = rewritten(module, MultiOutputFusion(TARGET), relative=1e-6)
    counts = [
        len(i.shape.tuple_shapes) for i in after.entry.instructions if i.opcode is Opcode.FUSION
    ]
    assert sorted(counts) == [2, 4]


def test_what_both_compute_is_computed_once() -> None:
    module = _looped(
        ["f32[8,6]", "f32[8,6]"],
        "(f32[8,6], f32[8,6]) tuple(a, b)",
        [
            "s = f32[8,6] add(x0, x1)",
            "a = f32[8,6] negate(s)",
            "b = f32[8,6] multiply(s, s)",
        ],
    )
    after = rewritten(module, MultiOutputFusion(TARGET))
    (fusion,) = [i for i in after.entry.instructions if i.opcode is Opcode.FUSION]
    assert opcodes(after, fusion.called[0])["add"] == 1


def test_the_number_of_results_is_bounded() -> None:
    names = [f"v{number}" for number in range(2 * FUSIONS.max_results)]
    shapes = ", ".join("f32[8,6]" for _ in names)
    module = _looped(
        ["f32[8,6]"],
        f"({shapes}) tuple({', '.join(names)})",
        [
            line
            for number, name in enumerate(names)
            for line in (
                f"c{number} = f32[] constant({number})",
                f"w{number} = f32[8,6] broadcast(c{number}), dimensions={{}}",
                f"{name} = f32[8,6] add(x0, w{number})",
            )
        ],
    )
    after = rewritten(module, MultiOutputFusion(TARGET))
    fusions = [i for i in after.entry.instructions if i.opcode is Opcode.FUSION]
    assert all(
        len(i.shape.tuple_shapes) <= FUSIONS.max_results for i in fusions if i.shape.is_tuple
    )


@pytest.mark.parametrize(
    ("target", "permutation", "is_one"),
    [(TARGET, "1,0,2", False), (GPU, "1,0,2", True), (GPU, "1,2,0", False)],
)
def test_transposes_that_move_runs_are_siblings_on_a_gpu(
    target: Target, permutation: str, is_one: bool
) -> None:
    module = stated(
        ["f32[4,4,4]"],
        "(f32[4,4,4], f32[4,4,4]) tuple(a, b)",
        "neg = f32[4,4,4] negate(x0)",
        "e = f32[4,4,4] exponential(x0)",
        f"a = f32[4,4,4] transpose(neg), dimensions={{{permutation}}}",
        f"b = f32[4,4,4] transpose(e), dimensions={{{permutation}}}",
    )
    after = passed(passed(module, LoopFusion(target)), MultiOutputFusion(target), fires=is_one)
    assert opcodes(after)["fusion"] == 1 + (not is_one)
    assert_kept(module, after)


ROWS = {
    "softmax_and_the_logarithm_of_its_sums": (
        ["f32[8,6]"],
        "(f32[8,6], f32[8]) tuple(share, l)",
        [
            _ZERO,
            "e = f32[8,6] exponential(x0)",
            "s = f32[8] reduce(e, zero), dimensions={1}, to_apply=add",
            "l = f32[8] log(s)",
            "sums = f32[8,6] broadcast(s), dimensions={0}",
            "share = f32[8,6] divide(e, sums)",
        ],
    ),
    "a_bias_that_moves_by_its_gradient": (
        ["f32[8,6]", "f32[6]", "f32[8,6]"],
        "(f32[8,6], f32[6]) tuple(p, moved)",
        [
            _ZERO,
            "p = f32[8,6] multiply(x0, x2)",
            "s = f32[6] reduce(p, zero), dimensions={0}, to_apply=add",
            "moved = f32[6] subtract(x1, s)",
        ],
    ),
    "a_sum_of_what_is_stored": (
        ["f32[2,8,6]"],
        "(f32[2,8,6], f32[2,8]) tuple(e, s)",
        [
            _ZERO,
            "e = f32[2,8,6] exponential(x0)",
            "s = f32[2,8] reduce(e, zero), dimensions={2}, to_apply=add",
        ],
    ),
}

OTHER_ROWS = {
    "square_columns": (
        ["f32[8,8]"],
        "(f32[8,8], f32[8]) tuple(e, s)",
        [
            _ZERO,
            "e = f32[8,8] exponential(x0)",
            "s = f32[8] reduce(e, zero), dimensions={0}, to_apply=add",
        ],
    ),
    "many_columns": (
        ["f32[256,513]"],
        "(f32[256,513], f32[513]) tuple(e, s)",
        [
            _ZERO,
            "e = f32[256,513] negate(x0)",
            "s = f32[513] reduce(e, zero), dimensions={0}, to_apply=max",
        ],
    ),
    "rows_and_columns": (
        ["f32[8,6]"],
        "(f32[8], f32[6]) tuple(r, s)",
        [
            _ZERO,
            "e = f32[8,6] exponential(x0)",
            "r = f32[8] reduce(e, zero), dimensions={1}, to_apply=add",
            "rs = f32[8,6] broadcast(r), dimensions={0}",
            "s = f32[6] reduce(rs, zero), dimensions={0}, to_apply=add",
        ],
    ),
    "rows_in_another_order": (
        ["f32[8,8]"],
        "(f32[8,8], f32[8]) tuple(e, s)",
        [
            _ZERO,
            "e = f32[8,8] exponential(x0)",
            "r = f32[8,8] reverse(e), dimensions={0}",
            "s = f32[8] reduce(r, zero), dimensions={1}, to_apply=add",
        ],
    ),
    "several_sums": (
        ["f32[8,6]"],
        "(f32[8,6], f32[]) tuple(e, s)",
        [
            _ZERO,
            "e = f32[8,6] exponential(x0)",
            "s = f32[] reduce(e, zero), dimensions={0,1}, to_apply=add",
        ],
    ),
}


@pytest.mark.parametrize("name", [*ROWS, *OTHER_ROWS])
def test_a_kernel_of_a_gpu_goes_on_with_rows(name: str) -> None:
    module = stated(*({**ROWS, **OTHER_ROWS}[name][:2]), *{**ROWS, **OTHER_ROWS}[name][2])
    looped = passed(module, LoopFusion(GPU))
    after = passed(looped, MultiOutputFusion(GPU), fires=name in ROWS)
    assert_kept(module, after)
    if name in ROWS:
        passed(looped, MultiOutputFusion(TARGET), fires=False)
        code = compiled(module)
        assert len(grids(code)) == 1
        arguments = [tame(part.shape, np.random.default_rng(0)) for part in module.entry.parameters]
        assert_near(results_of(module, code, arguments), interpreted(module, arguments))

"""Fusions that are split where their loop nest would evaluate an instruction too often."""

import dataclasses
import random
from collections.abc import Callable

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import assert_kept, opcodes, passed, rewritten, stated
from xla_contract.types.opcode import Opcode
from xla_server.codegen.lower.recomputation import LoopNestCosts
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.fusion.multi_output_fusion import MultiOutputFusion
from xla_server.fusion.recomputation_guard import RecomputationGuard, may_repeat
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.ir.verification.verifier import verify
from xla_server.passes.framework.editor import copy_module

TUNING = TARGET.tuning

_ZERO = "zero = f32[] constant(0)"


@dataclasses.dataclass(frozen=True)
class Chosen:
    """Stores what is chosen, whatever it costs."""

    choose: Callable[[HloInstruction], bool]

    def stored(self, fusion: HloInstruction) -> frozenset[HloInstruction]:
        (called,) = fusion.called
        root = called.root
        results = (root, *root.operands) if root.opcode is Opcode.TUPLE else (root,)
        computed = (i for i in called.instructions if i.opcode not in _NOT_STORED)
        return frozenset(i for i in computed if i not in results and self.choose(i))


_NOT_STORED = (Opcode.PARAMETER, Opcode.CONSTANT, Opcode.TUPLE)


def two_results() -> HloModule:
    """Rows times their sums, and what is made of that."""
    return stated(
        ["f32[6,9]", "f32[6,9]"],
        "(f32[6,9], f32[6,9]) tuple(p, q)",
        _ZERO,
        "two = f32[] constant(2)",
        "twice = f32[6,9] broadcast(two), dimensions={}",
        "t = f32[6,9] multiply(x0, twice)",
        "s = f32[6] reduce(t, zero), dimensions={1}, to_apply=add",
        "w = f32[6,9] broadcast(s), dimensions={0}",
        "p = f32[6,9] multiply(t, w)",
        "h = f32[6,9] tanh(p)",
        "q = f32[6,9] subtract(h, x1)",
    )


def joined_rows() -> HloModule:
    """A concatenate of what is computed, and a sum over it."""
    return stated(
        ["f32[4,5]", "f32[4,5]"],
        "f32[4] reduce(all, zero), dimensions={1}, to_apply=add",
        _ZERO,
        "a = f32[4,5] tanh(x0)",
        "b = f32[4,5] add(a, x1)",
        "both = f32[4,10] concatenate(a, b), dimensions={1}",
        "r = f32[4,10] reverse(both), dimensions={1}",
        "all = f32[4,10] subtract(r, both)",
    )


def softmax(rows: int, columns: int, scaled: str = "x0") -> HloModule:
    shape = f"f32[{rows},{columns}]"
    return stated(
        [shape],
        f"{shape} divide(e, w)",
        _ZERO,
        f"two = {shape} add(x0, x0)",
        f"e = {shape} exponential({scaled})",
        f"s = f32[{rows}] reduce(e, zero), dimensions={{1}}, to_apply=add",
        f"w = {shape} broadcast(s), dimensions={{0}}",
    )


def fused(module: HloModule) -> HloModule:
    return passed(module, LoopFusion(TARGET), MultiOutputFusion(TARGET))


@pytest.mark.parametrize("make", [two_results, joined_rows])
def test_results_are_kept_whatever_is_stored(make: Callable[[], HloModule]) -> None:
    module, fired = fused(make()), 0
    for seed in range(12):
        chance = random.Random(seed)
        after = copy_module(module)
        guard = RecomputationGuard(Chosen(lambda _, chance=chance: chance.random() < 0.4))
        fired += guard.apply(after)
        verify(after)
        assert_kept(module, after)
    assert fired > 6


def test_what_is_stored_is_a_fusion_of_its_own() -> None:
    module = fused(softmax(3, 7, "two"))
    assert opcodes(module) == {"fusion": 1}
    after = rewritten(module, RecomputationGuard(Chosen(lambda i: i.opcode is Opcode.EXPONENTIAL)))
    assert opcodes(after) == {"fusion": 2}
    assert sum(opcodes(after, part).get("exponential", 0) for part in after.computations) == 1


def test_equal_fusions_are_asked_about_once() -> None:
    lines = [_ZERO]
    for n, kind in enumerate(("exponential", "exponential", "sine")):
        lines += [
            f"two{n} = f32[3,7] add(x{n}, x{n})",
            f"e{n} = f32[3,7] {kind}(two{n})",
            f"sum{n} = f32[3] reduce(e{n}, zero), dimensions={{1}}, to_apply=add",
            f"w{n} = f32[3,7] broadcast(sum{n}), dimensions={{0}}",
            f"d{n} = f32[3,7] divide(e{n}, w{n})",
        ]
    shapes = ["f32[3,7]"] * 3
    module = fused(stated(shapes, f"({', '.join(shapes)}) tuple(d0, d1, d2)", *lines))
    requested: list[HloInstruction] = []

    class Adds:
        def stored(self, fusion: HloInstruction) -> frozenset[HloInstruction]:
            requested.append(fusion)
            return frozenset(i for i in fusion.called[0].instructions if i.opcode is Opcode.ADD)

    after = rewritten(module, RecomputationGuard(Adds()))
    assert len(requested) == 2
    assert opcodes(after) == {"add": 3, "fusion": 3, "tuple": 1}


def test_a_single_instruction_is_stored_without_a_fusion() -> None:
    module = fused(softmax(3, 7))
    after = rewritten(module, RecomputationGuard(Chosen(lambda i: i.opcode is Opcode.EXPONENTIAL)))
    assert opcodes(after) == {"exponential": 1, "fusion": 1}


def test_a_result_that_is_stored_is_read_by_the_other_results() -> None:
    module = fused(two_results())

    @dataclasses.dataclass(frozen=True)
    class First:
        def stored(self, fusion: HloInstruction) -> frozenset[HloInstruction]:
            return frozenset(fusion.called[0].root.operands[:1])

    after = rewritten(module, RecomputationGuard(First()))
    assert opcodes(module) == {"fusion": 1, "get-tuple-element": 2, "tuple": 1}
    assert opcodes(after) == {"fusion": 2, "tuple": 1}


def test_fires_where_rows_are_longer_than_a_row_buffer() -> None:
    after = passed(fused(softmax(20, 1 << 17)), RecomputationGuard(LoopNestCosts(TARGET)))
    # The kernels that are left need no other split.
    passed(after, RecomputationGuard(LoopNestCosts(TARGET)), fires=False)


def test_does_not_fire_where_a_row_buffer_holds_what_is_read_again() -> None:
    passed(fused(softmax(20, 1000)), RecomputationGuard(LoopNestCosts(TARGET)), fires=False)


def test_does_not_ask_where_each_element_is_evaluated_once() -> None:
    module = fused(
        stated(
            ["f32[8,6]", "f32[6]"],
            "f32[8,6] multiply(e, s)",
            "w = f32[8,6] broadcast(x1), dimensions={1}",
            "s = f32[8,6] add(x0, w)",
            "e = f32[8,6] exponential(s)",
        )
    )

    @dataclasses.dataclass(frozen=True)
    class Unasked:
        def stored(self, fusion: HloInstruction) -> frozenset[HloInstruction]:
            raise AssertionError(fusion)

    passed(module, RecomputationGuard(Unasked()), fires=False)
    (fusion,) = (i for i in module.entry.instructions if i.opcode is Opcode.FUSION)
    assert not may_repeat(fusion.called[0])
    (fusion,) = (i for i in fused(softmax(3, 7)).entry.instructions if i.opcode is Opcode.FUSION)
    assert may_repeat(fusion.called[0])

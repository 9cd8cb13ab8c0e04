"""Reductions of several arrays at once, whose operands are computed in their loops."""

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.hlo_text import parse_hlo
from tests.processors import TARGET
from tests.unit.codegen.compiled import on_cpu
from tests.unit.passes.passing import assert_kept, drawn, leaves, opcodes, passed
from xla_contract.types.opcode import Opcode
from xla_server.evaluator.interpret import evaluate
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.fusion.recomputation_guard import RecomputationGuard
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.passes.framework.editor import copy_module


def argmax(sizes: tuple[int, ...], dimension: int, kind: str = "f32") -> HloModule:
    """The least index, of those along a dimension, of the largest magnitude, and it."""
    whole = ",".join(map(str, sizes))
    kept = ",".join(str(size) for d, size in enumerate(sizes) if d != dimension)
    return import_module(
        parse_hlo(
            f"""HloModule argmax
            larger {{
              a = {kind}[] parameter(0)
              i = s32[] parameter(1)
              b = {kind}[] parameter(2)
              j = s32[] parameter(3)
              above = pred[] compare(a, b), direction=GT
              none = pred[] compare(a, a), direction=NE
              wins = pred[] or(above, none)
              same = pred[] compare(a, b), direction=EQ
              before = pred[] compare(i, j), direction=LT
              first = pred[] and(same, before)
              stays = pred[] or(wins, first)
              value = {kind}[] select(wins, a, b)
              index = s32[] select(stays, i, j)
              ROOT both = ({kind}[], s32[]) tuple(value, index)
            }}
            ENTRY entry {{
              x = {kind}[{whole}] parameter(0)
              size = {kind}[{whole}] abs(x)
              least = {kind}[] constant(0)
              n = s32[] constant(0)
              index = s32[{whole}] iota(), iota_dimension={dimension}
              ROOT pair = ({kind}[{kept}], s32[{kept}]) reduce(size, index, least, n),
                dimensions={{{dimension}}}, to_apply=larger
            }}"""
        )
    )


SIZES = [
    ((40, 6, 3, 7), 2),
    ((40, 6, 3, 7), 0),
    ((40, 6, 3, 7), 1),
    ((40, 6, 3, 7), 3),
    ((300, 33), 0),
    ((30, 19, 70), 1),
    ((9, 1), 1),
    ((5,), 0),
    ((4000,), 0),
]


@pytest.mark.parametrize(("sizes", "dimension"), SIZES)
def test_fires_for_what_is_elementwise_and_for_indices(
    sizes: tuple[int, ...], dimension: int
) -> None:
    module = argmax(sizes, dimension)
    after = passed(module, LoopFusion(TARGET))
    assert opcodes(after) == {"fusion": 1}
    assert {"abs", "iota", "reduce"} <= opcodes(after, after.entry.root.called[0]).keys()
    assert_kept(module, after)


def test_does_not_fire_for_a_reduction_of_what_is_in_memory() -> None:
    text = """HloModule sums
      both { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2)
        d = f32[] parameter(3) e = f32[] subtract(a, d) f = f32[] subtract(c, b)
        ROOT pair = (f32[], f32[]) tuple(e, f) }
      ENTRY entry { x = f32[9,3] parameter(0) y = f32[9,3] parameter(1) z = f32[] parameter(2)
        ROOT r = (f32[9], f32[9]) reduce(x, y, z, z), dimensions={1}, to_apply=both }"""
    after = passed(import_module(parse_hlo(text)), LoopFusion(TARGET), fires=False)
    assert opcodes(after) == {"reduce": 1}


@pytest.mark.parametrize(
    ("sizes", "dimension", "kind"),
    [
        *((sizes, dimension, "f32") for sizes, dimension in SIZES),
        *((*SIZES[n], kind) for n in (0, 3, 4) for kind in ("bf16", "s8", "f64", "s64")),
    ],
)
def test_compiled_pairs_are_those_of_the_interpreter(
    sizes: tuple[int, ...], dimension: int, kind: str
) -> None:
    module = argmax(sizes, dimension, kind)
    argument = drawn(module.entry.parameters[0].shape, np.random.default_rng(len(sizes)))
    expected = leaves(evaluate(module, [argument]))
    for got, wanted in zip(on_cpu(module, [argument]), expected, strict=True):
        assert_equal_bits(got, wanted)


class StoresMagnitudes:
    """A cost model that stores every `abs`."""

    def stored(self, fusion: HloInstruction) -> frozenset[HloInstruction]:
        inside = fusion.called[0].instructions
        return frozenset(i for i in inside if i.opcode is Opcode.ABS)


def test_the_recomputation_guard_keeps_the_pair_of_a_fusion_that_it_splits() -> None:
    module = passed(argmax((300, 33), 0), LoopFusion(TARGET))
    after = copy_module(module)
    # The guard asks about fusions that could evaluate an instruction again.
    assert RecomputationGuard(StoresMagnitudes()).apply(after)
    assert opcodes(after) == {"abs": 1, "fusion": 1}
    assert_kept(module, after)

"""Constant evaluation, merging, emptiness, size-1 dimensions and the fixed point."""

import dataclasses
from typing import Any, ClassVar

import numpy as np
import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import assert_kept, imported, opcodes, passed, rewritten, stated
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloModule
from xla_server.passes.canonicalize.degenerate_dimensions import Squeeze
from xla_server.passes.framework.fixpoint import Fixpoint
from xla_server.passes.reductions.tree_reduction import TreeReduction
from xla_server.passes.simplify.algebraic_simplifier import AlgebraicSimplifier
from xla_server.passes.simplify.constant_folding import ConstantFolding
from xla_server.passes.simplify.cse import CommonSubexpressions
from xla_server.passes.simplify.empty_arrays import EmptyArrays

Programs = dict[str, tuple[Any, ...]]


class TestConstantFolding:
    FIRES: ClassVar[Programs] = {
        "elementwise": ([], "f32[] add(o, o)"),
        "reshape": ([], "f32[4] reshape(k)", "k = f32[2,2] constant({{1,2},{3,4}})"),
        "reduce": (
            [],
            "f32[] reduce(k, z), dimensions={0}, to_apply=add",
            "k = f32[2] constant({1,2})",
        ),
        "dot": (
            [],
            "f32[] dot(k, k), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
            "k = f32[2] constant({1,2})",
        ),
        "divided by zero": ([], "f32[] divide(o, z)"),
    }
    STAYS: ClassVar[Programs] = {
        "broadcast": ([], "f32[9] broadcast(o), dimensions={}"),
        "iota": ([], "s32[9] iota(), iota_dimension=0"),
        "rng": ([], "f32[2] rng(z, o), distribution=rng_uniform"),
        "parameter": (["f32[]"], "f32[] add(x0, o)"),
        "large": ([], "f32[30000] pad(k, z), padding=0_29998", "k = f32[2] constant({1,2})"),
    }

    @pytest.mark.parametrize("name", FIRES)
    def test_fires(self, name: str) -> None:
        assert opcodes(rewritten(stated(*self.FIRES[name]), ConstantFolding())) == {"constant": 1}

    @pytest.mark.parametrize("name", STAYS)
    def test_does_not_fire(self, name: str) -> None:
        passed(stated(*self.STAYS[name]), ConstantFolding(), fires=False)


class TestEmptyArrays:
    FIRES: ClassVar[Programs] = {
        "elementwise": (["f32[0,3]"], "f32[0,3] negate(x0)"),
        "reduce": (["f32[3,0]"], "f32[3] reduce(x0, o), dimensions={1}, to_apply=max"),
        "reduce_variadic": (
            ["f32[3,0]", "s32[3,0]"],
            "(f32[3], s32[3]) reduce(x0, x1, o, n), dimensions={1}, to_apply=argmax",
        ),
        "window": (
            ["f32[0]"],
            "f32[3] reduce-window(x0, o), window={size=2 pad=2_2}, to_apply=add",
        ),
        "dot": (
            ["f32[2,0]", "f32[0,3]"],
            "f32[2,3] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ),
        "pad": (["f32[0]"], "f32[3] pad(x0, o), padding=1_2"),
        "dynamic_update": (["f32[3]", "f32[0]"], "f32[3] dynamic-update-slice(x0, x1, n)"),
        "sort": (
            ["f32[0]", "s32[0]"],
            "(f32[0], s32[0]) sort(x0, x1), dimensions={0}, to_apply=by_value",
        ),
        "scatter": (
            ["f32[5,4]", "s32[0,1]", "f32[0,4]"],
            "f32[5,4] scatter(x0, x1, x2), update_window_dims={1}, inserted_window_dims={0}, "
            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
        ),
        "gather": (
            ["f32[5,4]", "s32[0,1]"],
            "f32[0,4] gather(x0, x1), offset_dims={1}, collapsed_slice_dims={0}, "
            "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}",
        ),
        "select_and_scatter": (
            ["f32[4]", "f32[0]"],
            "f32[4] select-and-scatter(x0, x1, o), window={size=6}, select=ge, scatter=add",
        ),
    }

    @pytest.mark.parametrize("name", FIRES)
    def test_fires(self, name: str) -> None:
        before = stated(*self.FIRES[name])
        assert set(opcodes(rewritten(before, EmptyArrays()))) <= {"constant", "broadcast", "tuple"}

    def test_does_not_fire(self) -> None:
        passed(stated(["f32[1,3]"], "f32[1,3] negate(x0)"), EmptyArrays(), fires=False)

    def test_empty_parts_of_concatenations_are_dropped(self) -> None:
        before = stated(["f32[0,3]", "f32[2,3]"], "f32[2,3] concatenate(x0, x1), dimensions={0}")
        assert opcodes(rewritten(before, AlgebraicSimplifier())) == {}


class TestSqueeze:
    FIRES: ClassVar[Programs] = {
        "elementwise": (["f32[4,1]", "f32[4,1]"], "f32[4,1] add(x0, x1)"),
        "select": (["pred[]", "f32[1,4]", "f32[1,4]"], "f32[1,4] select(x0, x1, x2)"),
        "broadcast": (["f32[4,1]"], "f32[4,1,6] broadcast(x0), dimensions={0,1}"),
        "broadcast_moved": (["f32[4,1,3]"], "f32[3,4,1] broadcast(x0), dimensions={1,2,0}"),
        "iota": ([], "s32[1,4] iota(), iota_dimension=1"),
        "reduce": (["f32[4,1,6]"], "f32[4] reduce(x0, o), dimensions={1,2}, to_apply=add"),
        "reduce_of_one": (["f32[4,1]"], "f32[4] reduce(x0, o), dimensions={1}, to_apply=add"),
        "reverse": (["f32[4,1]"], "f32[4,1] reverse(x0), dimensions={0,1}"),
        "slice": (["f32[4,1]"], "f32[2,1] slice(x0), slice={[1:3], [0:1]}"),
        "transpose": (["f32[4,1,3]"], "f32[3,1,4] transpose(x0), dimensions={2,1,0}"),
    }

    @pytest.mark.parametrize("name", FIRES)
    def test_fires(self, name: str) -> None:
        before = stated(*self.FIRES[name])
        after = rewritten(before, Squeeze(), relative=1e-6)
        for i in after.entry.instructions:
            if i.opcode not in (Opcode.PARAMETER, Opcode.RESHAPE):
                assert 1 not in i.shape.dimensions
        passed(after, Squeeze(), fires=False)

    @pytest.mark.parametrize(
        "program",
        [
            (["f32[4,2]", "f32[4,2]"], "f32[4,2] add(x0, x1)"),
            (["f32[]"], "f32[4,1] broadcast(x0), dimensions={}"),
            (["f32[4]"], "f32[1] slice(x0), slice={[1:2]}"),
            (["f32[4,1]"], "f32[2,2] reshape(x0)"),
        ],
    )
    def test_does_not_fire(self, program: tuple[list[str], str]) -> None:
        passed(stated(*program), Squeeze(), fires=False)


TWO_SUMS = """HloModule m
one { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
two { d = f32[] parameter(0)
  e = f32[] parameter(1)
  ROOT f = f32[] %s }
ENTRY e { x = f32[4,3] parameter(0)
  z = f32[] constant(0)
  z2 = f32[] constant(%s)
  p = f32[4] reduce(x, z), dimensions={1}, to_apply=one
  q = f32[4] reduce(x, z2), dimensions={1}, to_apply=two
  ROOT r = f32[4] subtract(p, q) }
"""


class TestCse:
    def test_computations_written_alike_are_one(self) -> None:
        before = imported(TWO_SUMS % ("add(d, e)", "0"))
        assert opcodes(rewritten(before, CommonSubexpressions(), relative=1e-6))["reduce"] == 1

    @pytest.mark.parametrize(
        ("other", "start"), [("add(e, d)", "0"), ("maximum(d, e)", "0"), ("add(d, e)", "-0.0")]
    )
    def test_other_computations_and_constants_are_not(self, other: str, start: str) -> None:
        module = imported(TWO_SUMS % (other, start))
        CommonSubexpressions().apply(module)
        assert opcodes(module)["reduce"] == 2

    def test_random_numbers_differ(self) -> None:
        module = stated(
            [],
            "f32[2] subtract(a, b)",
            "a = f32[2] rng(z, o), distribution=rng_uniform",
            "b = f32[2] rng(z, o), distribution=rng_uniform",
        )
        assert opcodes(passed(module, CommonSubexpressions(), fires=False))["rng"] == 2

    @pytest.mark.parametrize(
        ("other", "calls"),
        [
            ('custom_call_target="f"', 1),
            ('custom_call_target="g"', 2),
            ('custom_call_target="f", backend_config="k=1"', 2),
        ],
    )
    @pytest.mark.parametrize("acts", [False, True])
    def test_calls_of_one_function_are_one_unless_it_has_a_side_effect(
        self, other: str, calls: int, acts: bool
    ) -> None:
        flag = ", custom_call_has_side_effect=true" * acts
        module = stated(
            ["f32[4]"],
            "f32[4] subtract(a, b)",
            f'a = f32[4] custom-call(x0), custom_call_target="f"{flag}',
            f"b = f32[4] custom-call(x0), {other}{flag}",
        )
        CommonSubexpressions().apply(module)
        assert opcodes(module)["custom-call"] == (2 if acts else calls)

    @pytest.mark.parametrize("flag", ["", ", custom_call_has_side_effect=true"])
    def test_nor_are_they_if_they_call_computations(self, flag: str) -> None:
        call = f'custom-call(x), custom_call_target="f", called_computations={{two}}{flag}'
        module = imported(
            f"""HloModule m
            two {{ a = f32[] parameter(0)
              ROOT b = f32[] add(a, a) }}
            ENTRY e {{ x = f32[] parameter(0)
              a = f32[] {call}
              b = f32[] {call}
              ROOT r = f32[] add(a, b) }}"""
        )
        CommonSubexpressions().apply(module)
        assert opcodes(module)["custom-call"] == (2 if flag else 1)


def complex_sum(operand: str, initial: str) -> HloModule:
    """A module that adds up the vector `x`, on top of an initial value."""
    return imported(
        f"""HloModule sum
        add {{ a = c64[] parameter(0)
          b = c64[] parameter(1)
          ROOT s = c64[] add(a, b) }}
        ENTRY e {{ {operand}
          k = c64[] constant({initial})
          ROOT r = c64[] reduce(x, k), dimensions={{0}}, to_apply=add }}"""
    )


class TestTreeReduction:
    FIRES: ClassVar[Programs] = {
        "full": ("f32[300,400]", "f32[] reduce(x0, o), dimensions={0,1}, to_apply=add"),
        "with_a_rest": ("f32[70001]", "f32[] reduce(x0, o), dimensions={0}, to_apply=add"),
        "few_rows": ("f32[3,40000]", "f32[3] reduce(x0, o), dimensions={1}, to_apply=max"),
        "columns": ("f32[30000,5]", "f32[5] reduce(x0, o), dimensions={0}, to_apply=add"),
        "wide_columns": ("f32[1200,1100]", "f32[1100] reduce(x0, o), dimensions={0}, to_apply=add"),
        "separate": ("f32[40,6,600]", "f32[6] reduce(x0, o), dimensions={0,2}, to_apply=add"),
        "logic": ("pred[90000]", "pred[] reduce(x0, k), dimensions={0}, to_apply=or"),
    }
    STAYS: ClassVar[Programs] = {
        "short": ("f32[300,20]", "f32[] reduce(x0, o), dimensions={0,1}, to_apply=add"),
        "many_rows": ("f32[300,400]", "f32[300] reduce(x0, o), dimensions={1}, to_apply=add"),
        "many_columns": ("f32[300,4000]", "f32[4000] reduce(x0, o), dimensions={0}, to_apply=add"),
        "a_million_in_wide_columns": (
            "f32[1024,1024]",
            "f32[1024] reduce(x0, o), dimensions={0}, to_apply=add",
        ),
        "few_wide_rows": ("f32[200,9000]", "f32[9000] reduce(x0, o), dimensions={0}, to_apply=add"),
        "wide_without_blocks": (
            "f32[599,1100]",
            "f32[1100] reduce(x0, o), dimensions={0}, to_apply=add",
        ),
        "any_reducer": ("f32[70001]", "f32[] reduce(x0, o), dimensions={0}, to_apply=hypot"),
    }

    @pytest.mark.parametrize("name", FIRES)
    def test_fires(self, name: str) -> None:
        parameter, root = self.FIRES[name]
        before = stated([parameter], root, "k = pred[] constant(false)")
        after = rewritten(before, TreeReduction(TARGET), relative=1e-4)
        reductions = [i for i in after.entry.instructions if i.opcode is Opcode.REDUCE]
        assert len(reductions) >= 2
        passed(after, TreeReduction(TARGET), fires=False)

    @pytest.mark.parametrize("name", STAYS)
    def test_does_not_fire(self, name: str) -> None:
        parameter, root = self.STAYS[name]
        passed(stated([parameter], root), TreeReduction(TARGET), fires=False)

    @pytest.mark.parametrize(
        ("shape", "y", "value", "row"),
        [
            ("700,130", "f32[130]", "broadcast(x1), dimensions={1}", (1,)),
            ("700,130", "f32[700]", "broadcast(x1), dimensions={0}", (1,)),
            ("700,130", "f32[130,700]", "transpose(x1), dimensions={1,0}", (1,)),
            ("700,130", "f32[]", "iota(), iota_dimension=1", (1,)),
            ("70,10,130", "f32[130]", "broadcast(x1), dimensions={2}", (2,)),
            ("700,130,1", "f32[130]", "broadcast(x1), dimensions={1}", (1, 2)),
            ("700,130", "f32[]", "broadcast(x1), dimensions={}", None),
            ("700,130", "f32[700,130]", "negate(x1)", None),
            ("1,91000", "f32[91000]", "broadcast(x1), dimensions={1}", None),
        ],
    )
    def test_rows_are_a_step_where_elements_depend_on_the_index_in_them(
        self, shape: str, y: str, value: str, row: tuple[int, ...] | None
    ) -> None:
        every = ",".join(str(d) for d in range(shape.count(",") + 1))
        before = stated(
            [f"f32[{shape}]", y],
            f"f32[] reduce(m, o), dimensions={{{every}}}, to_apply=add",
            f"v = f32[{shape}] {value}",
            f"m = f32[{shape}] multiply(x0, v)",
        )
        after = passed(before, TreeReduction(TARGET))
        instructions = after.entry.instructions
        (product,) = (i for i in instructions if i.opcode is Opcode.MULTIPLY)
        reductions = [i for i in instructions if i.opcode is Opcode.REDUCE]
        found = [i.attributes.dimensions for i in reductions if i.operands[0] is product]
        assert found == ([] if row is None else [row])
        random = np.random.default_rng(0)
        shapes = [i.shape.dimensions for i in before.entry.parameters]
        assert_kept(before, after, [random.random(s, np.float32) for s in shapes], relative=1e-5)
        passed(after, TreeReduction(TARGET), fires=False)

    def test_nothing_but_negative_zeros_keeps_its_sign(self) -> None:
        before = stated(
            ["f32[70000]"],
            "f32[] reduce(x0, k), dimensions={0}, to_apply=add",
            "k = f32[] constant(-0.0)",
        )
        rewritten(before, TreeReduction(TARGET), arguments=[np.full(70000, -0.0, np.float32)])

    def test_complex_sums(self) -> None:
        before = complex_sum("x = c64[70000] parameter(0)", "(-0.0, -0.0)")
        after = passed(before, TreeReduction(TARGET))
        zeros = np.full(140_000, -0.0, np.float32).view(np.complex64)
        assert_kept(before, after, [zeros])
        assert_kept(before, after, relative=1e-5)


@dataclasses.dataclass
class _Counting:
    """A pass that says it changed something so many times."""

    name: str
    left: int
    runs: int = 0

    def apply(self, module: HloModule) -> bool:
        self.runs += 1
        self.left -= 1
        return self.left >= 0


def test_the_fixed_point_runs_until_nothing_changes() -> None:
    module = stated(["f32[]"], "f32[] add(x0, o)")
    first, second = _Counting("first", 2), _Counting("second", 0)
    assert Fixpoint("both", (first, second)).apply(module)
    assert (first.runs, second.runs) == (3, 2)
    assert not Fixpoint("both", (first, second)).apply(module)


def test_the_fixed_point_gives_up() -> None:
    module = stated(["f32[]"], "f32[] add(x0, o)")
    restless = _Counting("restless", 1000)
    assert Fixpoint("alone", (restless,), rounds=5).apply(module)
    assert restless.runs == 5

"""Expansions of operations into others."""

import functools
from typing import Any

import numpy as np
import pytest
from jax import lax

from tests.corpus import hlo_programs
from tests.corpus.jax.programs import lower
from tests.processors import TARGET
from tests.unit.ops.contraction import test_ragged_dot as ragged_dots
from tests.unit.ops.reduction import test_scan as scans
from tests.unit.passes.passing import assert_kept, imported, opcodes, passed, rewritten, stated
from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.contraction.ragged_dot import RaggedDotAttributes
from xla_contract.stubs import hlo_pb2
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.opcode import Opcode
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.importer import import_module
from xla_server.passes.canonicalize.float_widening import FloatWidening
from xla_server.passes.expand.batch_norm_expander import BatchNormExpander
from xla_server.passes.expand.bitcast_expander import BitcastExpander
from xla_server.passes.expand.collective_expander import CollectiveExpander
from xla_server.passes.expand.ragged_dot_expander import RaggedDotExpander
from xla_server.passes.expand.scan_expander import ScanExpander
from xla_server.passes.framework.editor import Editor
from xla_server.passes.simplify.call_inliner import CallInliner
from xla_server.passes.simplify.dead_code import DeadCode
from xla_server.passes.simplify.tuple_simplifier import TupleSimplifier


@pytest.mark.parametrize("name", ["training", "inference", "grad"])
def test_batch_norm(name: str) -> None:
    before = stated(*hlo_programs.PROGRAMS[f"batch_norm_{name}"])
    after = rewritten(before, BatchNormExpander(), relative=1e-5)
    assert not [opcode for opcode in opcodes(after) if opcode.startswith("batch-norm")]


def test_batch_norm_of_an_empty_batch() -> None:
    before = stated(
        ["f32[0,3]", "f32[3]", "f32[3]"],
        "(f32[0,3], f32[3], f32[3]) batch-norm-training(x0, x1, x2), epsilon=0.1, feature_index=1",
    )
    assert_kept(before, passed(before, BatchNormExpander()))


def test_batch_norm_of_half_floats_is_computed_in_f32() -> None:
    before = stated(
        ["bf16[16,3]", "bf16[3]", "bf16[3]", "bf16[3]", "bf16[3]"],
        "bf16[16,3] batch-norm-inference(x0, x1, x2, x3, positive), epsilon=0.1, feature_index=1",
        "positive = bf16[3] multiply(x4, x4)",
    )
    assert opcodes(rewritten(before, BatchNormExpander(), relative=2e-2))["convert"] == 6


def test_nothing_to_expand() -> None:
    module = stated(["f32[3,4]"], "f32[3] reduce(x0, z), dimensions={1}, to_apply=add")
    for step in (BatchNormExpander(), BitcastExpander(), CollectiveExpander()):
        passed(module, step, fires=False)


ALONE: tuple[tuple[Any, ...], ...] = (
    (["f32[3]"], "f32[3] all-reduce(x0), replica_groups={}, to_apply=add"),
    (
        ["f32[3]", "f32[2]"],
        "(f32[3], f32[2]) all-reduce(x0, x1), replica_groups={{0}}, to_apply=add",
    ),
    (["f32[3]"], "f32[3] all-gather(x0), replica_groups={{0}}, dimensions={0}"),
    (["f32[4]"], "f32[4] reduce-scatter(x0), replica_groups={{0}}, dimensions={0}, to_apply=add"),
    (["f32[4]"], "(f32[4]) all-to-all(x0), replica_groups={{0}}"),
    (["f32[4]"], "f32[4] collective-permute(x0), source_target_pairs={{0,0}}"),
    (["f32[4]"], "f32[4] collective-permute(x0), source_target_pairs={}"),
    (["f32[4]"], "f32[4] collective-broadcast(x0), replica_groups={{0}}"),
    (["f32[4]", "f32[2]"], "(f32[4], f32[2]) collective-broadcast(x0, x1), replica_groups={{0}}"),
    ([], "u32[] replica-id()"),
    ([], "u32[] partition-id()"),
    (["f32[4]"], "f32[4] copy-done(start)", "start = (f32[4], f32[4], u32[]) copy-start(x0)"),
    (
        ["f32[4]"],
        "f32[4] all-reduce-done(start)",
        "start = f32[4] all-reduce-start(x0), replica_groups={}, to_apply=add",
    ),
    (
        ["f32[4]"],
        "f32[4] all-gather-done(start)",
        "start = (f32[4], f32[4]) all-gather-start(x0), replica_groups={{0}}, dimensions={0}",
    ),
    (
        ["f32[4]"],
        "f32[4] collective-permute-done(start)",
        "start = (f32[4], f32[4]) collective-permute-start(x0), source_target_pairs={{0,0}}",
    ),
)


@pytest.mark.parametrize("case", ALONE, ids=str)
def test_collectives_of_one(case: tuple[Any, ...]) -> None:
    before = stated(*case)
    after = rewritten(before, CollectiveExpander())
    allowed = {"add", "tuple", "constant", "broadcast", "get-tuple-element"}
    assert set(opcodes(after)) <= allowed


def test_a_call_in_halves_becomes_a_call() -> None:
    text = """HloModule m
twice { t = f32[4] parameter(0)
  ROOT u = f32[4] add(t, t) }
ENTRY e { x = f32[4] parameter(0)
  start = ((f32[4]), f32[4], u32[]) async-start(x), calls=twice
  update = ((f32[4]), f32[4], u32[]) async-update(start)
  ROOT done = f32[4] async-done(update) }
"""
    after = rewritten(imported(text), CollectiveExpander(), CallInliner(), TupleSimplifier())
    assert opcodes(after) == {"add": 1}


@pytest.mark.parametrize(
    "root",
    [
        "f32[3] all-reduce(x0), replica_groups={{0,1}}, to_apply=add",
        "f32[3] collective-permute(x0), source_target_pairs={{0,1}}",
        "f32[3] collective-permute(x0), source_target_pairs={{0,0},{1,2}}",
    ],
)
def test_what_asks_for_others_stays_and_is_refused_when_it_runs(root: str) -> None:
    after = passed(stated(["f32[3]"], root), CollectiveExpander(), fires=False)
    with pytest.raises(InvalidArgumentError):
        evaluate(after, [np.ones(3, np.float32)])


ON_A_GRID = (
    ("f32[3] all-reduce(x0), replica_groups={{0},{1}}, to_apply=add", {}),
    ("f32[3] collective-permute(x0), source_target_pairs={{1,1},{0,0}}", {}),
    ("f32[3] collective-permute(x0), source_target_pairs={{1,1}}", {"collective-permute": 1}),
    ("f32[3] all-reduce(x0), replica_groups={}, to_apply=add", {"all-reduce": 1}),
    ("f32[3] collective-broadcast(x0), replica_groups={{1}}", {"collective-broadcast": 1}),
    (
        "(u32[], u32[]) tuple(r, p)",
        {"replica-id": 1, "tuple": 1},
        "r = u32[] replica-id()",
        "p = u32[] partition-id()",
    ),
)


@pytest.mark.parametrize("case", ON_A_GRID, ids=str)
def test_on_a_grid_only_what_needs_no_other_is_expanded(case: Any) -> None:
    root, left, *before = case
    module = stated(["f32[3]"], root, *before)
    module.grid = DeviceGrid(2, 1)
    CollectiveExpander().apply(module)
    assert {name: n for name, n in opcodes(module).items() if name != "constant"} == left


@pytest.mark.parametrize(
    ("root", "start"),
    [
        (
            "f32[6] all-gather-done(s)",
            "(f32[3], f32[6]) all-gather-start(x0), replica_groups={{0,1}}, dimensions={0}",
        ),
        (
            "f32[3] all-reduce-done(s)",
            "f32[3] all-reduce-start(x0), replica_groups={{0,1}}, to_apply=add",
        ),
        (
            "f32[3] collective-permute-done(s)",
            "(f32[3], f32[3], u32[]) collective-permute-start(x0), source_target_pairs={{0,1}}",
        ),
    ],
)
def test_halves_on_a_grid_become_whole(root: str, start: str) -> None:
    module = stated(["f32[3]"], root, f"s = {start}")
    module.grid = DeviceGrid(2, 1)
    after = passed(module, CollectiveExpander(), TupleSimplifier(), DeadCode())
    whole = root.split()[1].split("-done")[0]
    assert opcodes(after)[whole] == 1
    assert not any(opcode.endswith(("-start", "-done")) for opcode in opcodes(after))


BITCASTS = (
    (["f32[4,6]"], "f32[24] bitcast(x0)", {"reshape": 1}),
    (["f32[4,6]"], "f32[6,4]{0,1} bitcast(x0)", {"transpose": 1}),
    (["f32[4,6]"], "s32[4,6] bitcast(x0)", {"bitcast-convert": 1}),
    (["f32[6]"], "u8[24] bitcast(x0)", {"bitcast-convert": 1, "reshape": 1}),
    (["u8[2,12]"], "f32[6] bitcast(x0)", {"bitcast-convert": 1, "reshape": 1}),
)


@pytest.mark.parametrize("case", BITCASTS, ids=str)
def test_bitcast(case: Any) -> None:
    parameters, root, expected = case
    assert opcodes(rewritten(stated(parameters, root), BitcastExpander())) == expected


def test_bitcast_reads_the_layout_that_its_operand_was_written_with() -> None:
    before = stated(
        ["f32[4,6]"],
        "f32[24] bitcast(second)",
        "first = f32[6,4]{0,1} bitcast(x0)",
        "second = f32[6,2,2]{0,2,1} bitcast(first)",
    )
    rewritten(before, BitcastExpander(), arguments=[np.arange(24, dtype=np.float32).reshape(4, 6)])


WIDENED = (
    hlo_programs.PROGRAMS["reduce_bf16"],
    (
        ["bf16[9]"],
        "bf16[7] reduce-window(x0, start), window={size=3}, to_apply=add_bf16",
        "start = bf16[] constant(1)",
    ),
    (
        ["bf16[4,9]", "bf16[9,3]"],
        "bf16[4,3] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    hlo_programs.PROGRAMS["dot_bf16_to_f32"],
    (
        ["s8[4,9]", "s8[9,3]"],
        "f32[4,3] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    (
        ["f32[4,9]", "f32[9,3]"],
        "f64[4,3] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
)


@pytest.mark.parametrize("case", WIDENED, ids=str)
def test_narrow_floats_are_added_up_in_a_wide_type(case: Any) -> None:
    before = stated(*case)
    after = rewritten(
        before,
        FloatWidening(TARGET),
        relative=1e-2 if "bf16" in str(before.entry.root.shape) else 1e-6,
    )
    assert opcodes(after)["convert"] >= 1
    for i in after.entry.instructions:
        if str(i.opcode) in ("dot", "reduce", "reduce-window"):
            assert len({part.shape.element_type for part in (i, *i.operands)}) == 1
            assert i.shape.element_type.bit_width >= 32


@pytest.mark.parametrize(
    "program",
    [
        (["f32[3,4]"], "f32[3] reduce(x0, z), dimensions={1}, to_apply=add"),
        hlo_programs.PROGRAMS["dot_s8_to_s32"],
        hlo_programs.PROGRAMS["dot_c64"],
        hlo_programs.PROGRAMS["reduce_s8"],
    ],
)
def test_wide_floats_and_integers_stay(program: tuple[list[str], str]) -> None:
    passed(stated(*program), FloatWidening(TARGET), fires=False)


@pytest.mark.parametrize("name", scans.PROGRAMS)
def test_scan(name: str) -> None:
    before = import_module(scans.written(name))
    arguments = [np.asarray(argument) for argument in scans.PROGRAMS[name][3]]
    assert opcodes(rewritten(before, ScanExpander(), arguments=arguments))["while"] == 1
    assert_kept(before, passed(before, ScanExpander(), CallInliner()), arguments)


def test_scan_of_no_slices() -> None:
    text = """HloModule m
f { x = f32[] parameter(0)
  c = f32[] parameter(1)
  s = f32[] add(x, c)
  ROOT r = (f32[], f32[]) tuple(s, s) }
ENTRY e { p = f32[0] parameter(0)
  q = f32[] parameter(1)
  ROOT r = (f32[0], f32[]) scan(p, q), dimensions={0}, num_carries=1, to_apply=f }
"""
    assert "while" not in opcodes(rewritten(imported(text), ScanExpander()))


@pytest.mark.parametrize("name", ragged_dots.CASES)
@pytest.mark.parametrize("dtype", ["f4", "i2"])
def test_ragged_dot(name: str, dtype: str) -> None:
    lhs, rhs, sizes, (contracting, batch, ragged, group) = (
        *ragged_dots.CASES[name][:3],
        ragged_dots.CASES[name][3:],
    )
    random = np.random.default_rng(0)
    given = [(random.standard_normal(part) * 9).astype(dtype) for part in (lhs, rhs)]
    numbers = lax.RaggedDotDimensionNumbers(  # type: ignore[no-untyped-call]
        (contracting, batch), [ragged], [group] * (group is not None)
    )
    function = functools.partial(lax.ragged_dot_general, ragged_dot_dimension_numbers=numbers)
    arguments = [*given, np.array(sizes, np.int32)]
    proto = hlo_pb2.HloModuleProto.FromString(lower(function, *arguments, platform="tpu"))
    before = import_module(proto)
    # For a batch JAX writes the plain dot itself.
    after = passed(before, CallInliner(), RaggedDotExpander(), fires=name != "batch")
    assert "ragged-dot" not in opcodes(after)
    assert_kept(before, after, arguments, relative=1e-5 if dtype == "f4" else 0)


def test_ragged_dot_of_a_batch_is_a_dot() -> None:
    before = stated(
        ["f32[9,5,4]", "f32[9,4,7]", "s32[3]"],
        "f32[9,5,7] dot(x0, x1), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    )
    numbers = before.entry.root.attributes.dimension_numbers
    ragged = Editor(before).add(
        Opcode.RAGGED_DOT, before.entry.parameters, RaggedDotAttributes(numbers, 0)
    )
    before.entry.instructions.append(ragged)
    before.entry.root = ragged
    assert opcodes(rewritten(before, RaggedDotExpander(), DeadCode())) == {"dot": 1}


def test_without_scans_and_ragged_dots_nothing_changes() -> None:
    passed(stated(*hlo_programs.PROGRAMS["dot"]), ScanExpander(), RaggedDotExpander(), fires=False)

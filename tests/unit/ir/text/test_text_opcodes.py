"""Every opcode has its text; those that no corpus holds are written here."""

import pytest

from tests.corpus.hlo_programs import program
from tests.corpus.hlo_text import parse_hlo
from xla_contract.ops.definition import NoAttributes
from xla_contract.ops.definitions import DEFINITION
from xla_contract.types.opcode import Opcode
from xla_server.ir.fingerprint import fingerprint
from xla_server.ir.importer import import_module
from xla_server.ir.text.forms.table import FORMS
from xla_server.ir.text.parser import parse_module
from xla_server.ir.text.printer import print_module

GROUPS = "replica_groups={{0,1}}"
STARTED = "((f32[4]), f32[4], s32[])"

TEXTS: tuple[tuple[str, ...], ...] = (
    (
        "f32[8] all-gather-done(start)",
        f"start = (f32[4], f32[8]) all-gather-start(x0), {GROUPS}, dimensions={{0}}",
    ),
    (
        "(f32[8], f32[8]) all-gather(x0, x0), channel_id=3, replica_groups={{0,1}}, "
        "use_global_device_ids=true, dimensions={0}",
    ),
    (
        "f32[4] all-reduce-done(start)",
        "start = f32[4] all-reduce-start(x0), to_apply=add, constrain_layout=true",
    ),
    (f"(f32[4], f32[4]) all-to-all(x0, x0), {GROUPS}",),
    (
        "f32[4] async-done(more)",
        f"start = {STARTED} async-start(x0), calls=negated",
        f"more = {STARTED} async-update(start)",
    ),
    (f"f32[4] collective-broadcast(x0), {GROUPS}",),
    (
        "f32[4] collective-permute-done(start)",
        "start = (f32[4], f32[4], u32[]) collective-permute-start(x0), channel_id=3, "
        "source_target_pairs={{0,1},{1,0}}",
    ),
    ("f32[4] copy-done(start)", "start = (f32[4], f32[4], u32[]) copy-start(x0)"),
    ('f32[4] domain(x0), domain={kind="sharding", entry={maximal device=0}, exit={replicated}}',),
    ("s32[] get-dimension-size(x0), dimensions={0}",),
    (
        'token[] outfeed(x0, more), outfeed_shape=f32[4]{0}, outfeed_config="c\\001"',
        "after = token[] after-all()",
        'fed = (f32[3], token[]) infeed(after), infeed_config="ab"',
        "fresh = token[] get-tuple-element(fed), index=1",
        "more = token[] after-all(after, fresh)",
    ),
    (
        f"f32[4] ragged-all-to-all(x0, x0, i, i, i, i), {GROUPS}, dimensions={{0}}",
        "i = s32[2] constant({1, 2})",
    ),
    ("f32[4] map(x0, x0), dimensions={}, to_apply=add",),
    ("u32[6] rng-bit-generator(s), algorithm=rng_three_fry", "s = u64[2] constant({1, 2})"),
    (
        "(f32[4], f32[]) scan(x0, z), dimensions={0}, num_carries=1, is_reverse=true, "
        "is_associative=true, to_apply=both",
    ),
    ("s32[4] stochastic-convert(x0, r)", "r = u32[4] constant({1, 2, 3, 4})"),
    ("f32[4] rng(z, o), distribution=rng_normal",),
    ("u64[2] rng-get-and-update-state(), delta=16",),
    ("(f32[2], s32[2]) topk(x0), k=2, largest=false",),
    ("pred[4] compare(x0, x0), direction=LT, type=TOTALORDER",),
    ("f32[2] slice(x0), slice={[0:4:2]}",),
    (
        "f32[] dot(x0, x0), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
        "operand_precision={high,highest}, algorithm=dot_f32_f32_f32",
    ),
    (
        "f32[] dot(x0, x0), lhs_contracting_dims={0}, rhs_contracting_dims={0}, "
        "operand_precision={}",
    ),
    (
        "f32[4] reduce-window(x0, z), window={size=3 stride=1 pad=1_1 lhs_dilate=1 rhs_dilate=1}, "
        'to_apply=add, metadata={op_name="w"}',
    ),
    (
        "f32[1,2,1] convolution(a, k), window={size=3 rhs_reversal=1}, dim_labels=b0f_0io->b0f, "
        "convolution_kind=fprop",
        "a = f32[1,4,1] reshape(x0)",
        "k = f32[3,1,1] constant({{{1}}, {{2}}, {{3}}})",
    ),
    ("f32[4] fusion(x0), kind=kCustom, calls=negated, output_to_operand_aliasing={{}: (0, {})}",),
    (
        'f32[4] custom-call(x0), custom_call_target="f", called_computations={add, mul}, '
        'window={size=3}, dim_labels=b0f_0io->b0f, feature_group_count=2, backend_config="a\\"b"',
    ),
    (
        'f32[4] custom-call(x0), custom_call_target="f", batch_group_count=2, '
        "operand_precision={highest}, literal=s32[2]{0} {1, 2}",
    ),
    ('f32[4] custom-call(x0), custom_call_target="f", literal=f32[] 1.5',),
    (
        "f32[2,4] batch-norm-inference(b, x0, x0, x0, x0), epsilon=0.1, feature_index=1",
        "b = f32[2,4] broadcast(x0), dimensions={1}",
    ),
    (
        "f32[2,2] triangular-solve(a, a), left_side=true, lower=true, unit_diagonal=true, "
        "transpose_a=ADJOINT",
        "a = f32[2,2] reshape(x0)",
    ),
    ("f32[4] sort(x0), dimensions={0}, is_stable=true, to_apply=ge",),
    ("f32[<=4] set-dimension-size(x0, three), dimensions={0}", "three = s32[] constant(3)"),
    (
        "f32[4] set-dimension-size(d, four), dimensions={0}",
        "three = s32[] constant(3)",
        "four = s32[] constant(4)",
        "d = f32[<=4] set-dimension-size(x0, three), dimensions={0}",
    ),
    ("f32[2,<=2] dynamic-reshape(x0, two, two)", "two = s32[] constant(2)"),
    (
        "(f32[4], token[]) recv-done(there), channel_id=7",
        "before = token[] after-all()",
        "here = (f32[4], u32[], token[]) send(x0, before), channel_id=7",
        "sent = token[] send-done(here), channel_id=7",
        "there = (f32[4], u32[], token[]) recv(before), channel_id=7",
    ),
    ("(f32[4], (), (f32[])) tuple(x0, e, t)", "e = () tuple()", "t = (f32[]) tuple(z)"),
)

CALLED = """
negated { p.n = f32[4] parameter(0)
  ROOT q.n = f32[4] negate(p.n) }
both { element = f32[] parameter(0)
  carried = f32[] parameter(1)
  after = f32[] add(element, carried)
  ROOT pair = (f32[], f32[]) tuple(after, after) }
"""


@pytest.mark.parametrize("case", TEXTS, ids=str)
def test_both_readers_and_the_writer_agree(case: tuple[str, ...]) -> None:
    root, *before = case
    text = program(["f32[4]"], root, *before).replace("HloModule m\n", f"HloModule m\n{CALLED}")
    module = import_module(parse_hlo(text))
    written = print_module(module)
    for other in (parse_module(written), import_module(parse_hlo(written))):
        assert fingerprint(other, module.entry_program_shape) == fingerprint(
            module, module.entry_program_shape
        )
    assert print_module(parse_module(written)) == written
    ours, theirs = parse_module(text).entry.root, module.entry.root
    assert (ours.opcode, ours.attributes) == (theirs.opcode, theirs.attributes)
    assert len(ours.called) == len(theirs.called)


def test_every_opcode_with_attributes_has_a_form() -> None:
    in_operands = (Opcode.PARAMETER, Opcode.CONSTANT)
    needed = {o for o, d in DEFINITION.items() if d.attributes is not NoAttributes}
    assert needed - set(FORMS) == set(in_operands)
    assert set(FORMS) <= set(DEFINITION)

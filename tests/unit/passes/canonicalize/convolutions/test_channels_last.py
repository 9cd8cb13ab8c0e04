"""Convolutions whose arrays are brought into the order of the fastest kernels."""

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import opcodes, passed, rewritten, stated
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloModule
from xla_server.passes.canonicalize.convolutions.channels_last import ChannelsLast
from xla_server.passes.simplify.algebraic_simplifier import AlgebraicSimplifier
from xla_server.passes.simplify.dead_code import DeadCode

WINDOW = "window={size=3x3 pad=1_1x1_1}"
FIRST = "dim_labels=bf01_oi01->bf01"
OPERANDS = ["f32[2,8,5,6]", "f32[8,8,3,3]", "f32[8]"]
CONVOLUTION = f"c = f32[2,8,5,6] convolution(x0, x1), {WINDOW}, {FIRST}"
BIAS = "b = f32[2,8,5,6] broadcast(x2), dimensions={1}"
ZEROS = ["zero = f32[] constant(0)", "zeros = f32[2,8,5,6] broadcast(zero), dimensions={}"]


def moved(module: HloModule) -> HloModule:
    """The module after the pass, without what it left over."""
    return rewritten(module, ChannelsLast(TARGET), AlgebraicSimplifier(), DeadCode(), relative=1e-5)


MOVES = {
    "bias_and_relu": (
        "f32[2,8,5,6] maximum(sum, zeros)", [],
        [BIAS, *ZEROS, "sum = f32[2,8,5,6] add(c, b)"],
        {"transpose": 3, "add": 1, "maximum": 1, "broadcast": 2, "constant": 1},
    ),
    "convolved_twice": (
        f"f32[2,8,5,6] convolution(r, x1), {WINDOW}, {FIRST}", [],
        [*ZEROS, "r = f32[2,8,5,6] maximum(c, zeros)"],
        {"convolution": 2, "transpose": 4, "maximum": 1, "broadcast": 1, "constant": 1},
    ),
    "a_product_behind_it": (
        "f32[2,3,5,6] convolution(c, x3), window={size=1x1}, dim_labels=bf01_oi01->bf01",
        ["f32[3,8,1,1]"], [], {"convolution": 2, "transpose": 4},
    ),
    "residual": (
        "f32[2,8,5,6] add(r, d)", [],
        [
            *ZEROS, "r = f32[2,8,5,6] maximum(c, zeros)",
            f"d = f32[2,8,5,6] convolution(r, x1), {WINDOW}, {FIRST}",
        ],
        {
            "convolution": 2, "transpose": 4, "maximum": 1, "broadcast": 1, "constant": 1,
            "add": 1,
        },
    ),
    "mean": (
        "f32[2,8] reduce(c, zero), dimensions={2,3}, to_apply=add", [],
        ["zero = f32[] constant(0)"], {"transpose": 2, "reduce": 1, "constant": 1},
    ),
    "kept_dimensions_in_another_order": (
        "f32[8,5,6] reduce(c, zero), dimensions={0}, to_apply=add", [],
        ["zero = f32[] constant(0)"], {"transpose": 3, "reduce": 1, "constant": 1},
    ),
    "pooling": (
        "f32[2,8,3,3] reduce-window(c, low), to_apply=max, "
        "window={size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x0_1}", [],
        ["low = f32[] constant(-inf)"], {"transpose": 3, "reduce-window": 1, "constant": 1},
    ),
    "features_of_both": (
        "f32[2,16,5,6] concatenate(c, neg), dimensions={1}", [],
        ["neg = f32[2,8,5,6] negate(c)"], {"transpose": 3, "concatenate": 1, "negate": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_what_follows_stands_before_the_transpose(name: str) -> None:
    root, parameters, before, left = MOVES[name]
    after = moved(stated([*OPERANDS, *parameters], root, CONVOLUTION, *before))
    assert opcodes(after) == {"convolution": 1, **left}
    for i in after.entry.instructions:
        if i.opcode is Opcode.CONVOLUTION:
            assert i.attributes.dimension_numbers.output_order == (0, 3, 1, 2)


def test_a_sum_with_what_is_not_transposed_stays_behind_it() -> None:
    module = stated([*OPERANDS, "f32[2,8,5,6]"], "f32[2,8,5,6] add(c, x3)", CONVOLUTION)
    root = moved(module).entry.root
    assert root.opcode is Opcode.ADD
    assert root.operands[0].opcode is Opcode.TRANSPOSE


def test_what_others_read_in_order_stays_in_order() -> None:
    module = stated(
        OPERANDS,
        "(f32[2,240], f32[2,8,5,6]) tuple(flat, neg)",
        CONVOLUTION,
        "flat = f32[2,240] reshape(c)",
        "neg = f32[2,8,5,6] negate(c)",
    )
    root = moved(module).entry.root
    assert root.operands[1].opcode is Opcode.NEGATE


def test_groups_of_one_feature_each() -> None:
    module = stated(
        ["f32[1,16,5,6]", "f32[16,1,3,3]"],
        "f32[1,16,5,6] negate(c)",
        f"c = f32[1,16,5,6] convolution(x0, x1), {WINDOW}, {FIRST}, feature_group_count=16",
    )
    assert moved(module).entry.root.opcode is Opcode.TRANSPOSE


@pytest.mark.parametrize("features", [1, 2, 7])
def test_one_group_of_any_number_of_features(features: int) -> None:
    module = stated(
        ["f32[2,2,5,6]", f"f32[{features},2,3,3]"],
        f"f32[2,{features},5,6] negate(c)",
        f"c = f32[2,{features},5,6] convolution(x0, x1), {WINDOW}, {FIRST}",
    )
    (convolution,) = (i for i in moved(module).entry.instructions if i.opcode is Opcode.CONVOLUTION)
    assert convolution.attributes.dimension_numbers.input_feature_dimension == 3


LEFT = {
    "in_order": (
        "f32[2,5,6,8]", ["f32[2,5,6,8]", "f32[3,3,8,8]"], WINDOW, "dim_labels=b01f_01io->b01f",
    ),
    "one_place": ("f32[2,8,5,6]", ["f32[2,8,5,6]", "f32[8,8,1,1]"], "window={size=1x1}", FIRST),
    "few_features_of_groups": (
        "f32[2,6,5,6]", ["f32[2,18,5,6]", "f32[6,9,3,3]"], WINDOW,
        f"{FIRST}, feature_group_count=2",
    ),
    "short_rows": (
        "f32[2,8,5,2]", ["f32[2,8,7,4]", "f32[8,8,3,3]"], "window={size=3x3}", FIRST,
    ),
    "fewer_products_than_elements": (
        "f32[2,8,3,3]", ["f32[2,8,50,50]", "f32[8,8,1,2]"], "window={size=1x2 stride=20x20}", FIRST,
    ),
    "deep_sums": ("f32[2,8,5,6]", ["f32[2,911,5,6]", "f32[8,911,3,3]"], WINDOW, FIRST),
    "integers": ("s32[2,8,5,6]", ["s32[2,8,5,6]", "s32[8,8,3,3]"], WINDOW, FIRST),
    "few_groups": (
        "f32[2,8,5,6]", ["f32[2,8,5,6]", "f32[8,1,3,3]"], WINDOW,
        f"{FIRST}, feature_group_count=8",
    ),
    "groups_of_the_batch": (
        "f32[2,8,5,6]", ["f32[4,8,5,6]", "f32[8,8,3,3]"], WINDOW, f"{FIRST}, batch_group_count=2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_others_are_left(name: str) -> None:
    shape, operands, window, labels = LEFT[name]
    module = stated(operands, f"{shape} convolution(x0, x1), {window}, {labels}")
    passed(module, ChannelsLast(TARGET), fires=False)

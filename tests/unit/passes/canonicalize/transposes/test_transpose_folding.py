"""Dots, convolutions and reductions that read what their operands are transposes of."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.processors import TARGET
from tests.unit.passes.passing import assert_kept, opcodes, passed, rewritten, stated
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloModule
from xla_server.passes.canonicalize.transposes.transpose_folding import TransposeFolding

_MATRICES = "f32[4,6] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
_TRANSPOSED = "a = f32[4,5] transpose(x0), dimensions={1,0}"
_RIGHT = "b = f32[5,6] transpose(x1), dimensions={1,0}"

DOTS: tuple[tuple[list[str], str, list[str], dict[str, int]], ...] = (
    (["f32[5,4]", "f32[5,6]"], _MATRICES.replace("b)", "x1)"), [_TRANSPOSED], {"dot": 1}),
    (["f32[4,5]", "f32[6,5]"], _MATRICES.replace("a,", "x0,"), [_RIGHT], {"dot": 1}),
    (
        ["s64[4,5]", "s64[6,5]"],
        "s64[4,6] dot(x0, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ["b = s64[5,6] transpose(x1), dimensions={1,0}"],
        {"dot": 1},
    ),
    (
        ["s8[5,4]", "s8[5,6]"],
        "s8[4,6] dot(a, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ["a = s8[4,5] transpose(x0), dimensions={1,0}"],
        {"dot": 1},
    ),
    (["f32[5,4]", "f32[6,5]"], _MATRICES, [_TRANSPOSED, _RIGHT], {"dot": 1}),
    (
        ["f32[2,4,3,5]", "f32[2,6,3,5]"],
        "f32[2,3,4,6] dot(a, b), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, "
        "lhs_contracting_dims={3}, rhs_contracting_dims={2}",
        [
            "a = f32[2,3,4,5] transpose(x0), dimensions={0,2,1,3}",
            "b = f32[2,3,5,6] transpose(x1), dimensions={0,2,3,1}",
        ],
        {"dot": 1, "transpose": 1},
    ),
    (
        ["f32[4,5]", "bf16[6,5]"],
        _MATRICES.replace("a,", "x0,"),
        ["t = bf16[5,6] transpose(x1), dimensions={1,0}", "b = f32[5,6] convert(t)"],
        {"dot": 1, "convert": 1},
    ),
    (
        ["f32[4,5]", "bf16[6,5]"],
        "(f32[4,6], f32[5,6]) tuple(d, b)",
        [
            "t = bf16[5,6] transpose(x1), dimensions={1,0}",
            "b = f32[5,6] convert(t)",
            "d = " + _MATRICES.replace("a,", "x0,"),
        ],
        {"dot": 1, "convert": 2, "transpose": 1, "tuple": 1},
    ),
    (
        ["f32[4,5]", "f32[6,5]"],
        "(f32[4,6], f32[5,6]) tuple(d, b)",
        [_RIGHT, "d = " + _MATRICES.replace("a,", "x0,")],
        {"dot": 1, "transpose": 1, "tuple": 1},
    ),
    (
        ["f32[4,5]", "f32[6,5]"],
        _MATRICES.replace("a,", "x0,"),
        [
            "t = f32[5,6] transpose(x1), dimensions={1,0}",
            "half = f32[] constant(0.5)",
            "halves = f32[5,6] broadcast(half), dimensions={}",
            "e = f32[5,6] exponential(t)",
            "b = f32[5,6] multiply(e, halves)",
        ],
        {"dot": 1, "exponential": 1, "multiply": 1, "constant": 1, "broadcast": 1},
    ),
    (
        ["f32[1,4,5]", "f32[6,5]"],
        "f32[1,4,6] dot(x0, b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        ["t = f32[5,6] transpose(x1), dimensions={1,0}", "b = f32[1,5,6] reshape(t)"],
        {"dot": 1, "reshape": 1},
    ),
    (
        ["f32[4,5]", "f32[6,1,5]"],
        _MATRICES.replace("a,", "x0,"),
        ["t = f32[1,5,6] transpose(x1), dimensions={1,2,0}", "b = f32[5,6] reshape(t)"],
        {"dot": 1, "reshape": 1},
    ),
    (
        ["f32[4,5]", "f32[6,5]"],
        "f32[4,2,3] dot(x0, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ["t = f32[5,6] transpose(x1), dimensions={1,0}", "b = f32[5,2,3] reshape(t)"],
        {"dot": 1, "reshape": 1},
    ),
    (
        ["f32[4,5]", "f32[2,3,5]"],
        _MATRICES.replace("a,", "x0,"),
        ["t = f32[5,2,3] transpose(x1), dimensions={2,0,1}", "b = f32[5,6] reshape(t)"],
        {"dot": 1, "reshape": 1},
    ),
    (
        ["f32[5,4,1]", "f32[5,6]"],
        "f32[1,4,6] dot(a, x1), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        ["a = f32[1,4,5] transpose(x0), dimensions={2,1,0}"],
        {"dot": 1, "reshape": 1},
    ),
)


@pytest.mark.parametrize("case", DOTS, ids=str)
def test_folds_into_a_dot(case: tuple[list[str], str, list[str], dict[str, int]]) -> None:
    parameters, root, before, expected = case
    module = stated(parameters, root, *before)
    assert opcodes(rewritten(module, TransposeFolding(TARGET), relative=1e-6)) == expected


_LEFT_ALONE: tuple[tuple[list[str], str, list[str]], ...] = (
    (["f32[4,5]", "f32[5,6]"], _MATRICES.replace("a, b", "x0, x1"), []),
    (
        ["f32[4,3,5]", "f32[5,6]"],
        "f32[3,4,6] dot(a, x1), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        ["a = f32[3,4,5] transpose(x0), dimensions={1,0,2}"],
    ),
    (
        ["f32[4,6]", "f32[2,5,3]"],
        "f32[4,5] dot(x0, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        ["t = f32[5,3,2] transpose(x1), dimensions={1,2,0}", "b = f32[5,6] reshape(t)"],
    ),
    (
        ["f32[4,6]", "f32[5,2,3]"],
        "f32[4,5] dot(x0, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
        ["t = f32[5,3,2] transpose(x1), dimensions={0,2,1}", "b = f32[5,6] reshape(t)"],
    ),
    (
        ["f32[2,4,3,5]", "f32[2,3,5,6]"],
        "f32[2,3,4,6] dot(a, x1), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, "
        "lhs_contracting_dims={3}, rhs_contracting_dims={2}",
        ["a = f32[2,3,4,5] transpose(x0), dimensions={0,2,1,3}"],
    ),
    (
        ["s64[5,4]", "s64[5,6]"],
        "s64[4,6] dot(a, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ["a = s64[4,5] transpose(x0), dimensions={1,0}"],
    ),
    (
        ["f32[4,5]", "f32[6,5]"],
        "(f32[4,6], f32[5,6]) tuple(d, b)",
        [
            "t = f32[5,6] transpose(x1), dimensions={1,0}",
            "b = f32[5,6] exponential(t)",
            "d = " + _MATRICES.replace("a,", "x0,"),
        ],
    ),
    (
        ["f32[4,5]", "f32[6,5]", "f32[5,6]"],
        _MATRICES.replace("a,", "x0,"),
        ["t = f32[5,6] transpose(x1), dimensions={1,0}", "b = f32[5,6] add(t, x2)"],
    ),
    (
        ["f32[4,0]", "f32[6,0]"],
        "f32[4,3,2] dot(x0, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        ["t = f32[0,6] transpose(x1), dimensions={1,0}", "b = f32[0,3,2] reshape(t)"],
    ),
)


@pytest.mark.parametrize("case", _LEFT_ALONE, ids=str)
def test_is_left(case: tuple[list[str], str, list[str]]) -> None:
    parameters, root, before = case
    passed(stated(parameters, root, *before), TransposeFolding(TARGET), fires=False)


@pytest.mark.parametrize(("length", "fires"), [(8, True), (9, False)])
def test_chains_up_to_the_limit_are_looked_through(length: int, fires: bool) -> None:
    chain = [f"n{k + 1} = f32[5,6] negate(n{k})" for k in range(length)]
    module = stated(
        ["f32[4,5]", "f32[6,5]"],
        f"f32[4,6] dot(x0, n{length}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
        "n0 = f32[5,6] transpose(x1), dimensions={1,0}",
        *chain,
    )
    passed(module, TransposeFolding(TARGET), fires=fires)


_ZERO = "zz = f32[] constant(0)"
_T54 = "t = f32[5,4] transpose(x0), dimensions={1,0}"
_LARGE = "t = f32[64,32,8,16] transpose(x0), dimensions={3,2,0,1}"

_REDUCTIONS: tuple[tuple[str, str, list[str], dict[str, int]], ...] = (
    ("f32[4,5]", "f32[4] reduce(t, zz), dimensions={0}, to_apply=add", [_T54], {"reduce": 1}),
    ("f32[4,5]", "f32[] reduce(t, zz), dimensions={0,1}, to_apply=add", [_T54], {"reduce": 1}),
    (
        "f32[4,5]",
        "f32[5] reduce(s, zz), dimensions={1}, to_apply=add",
        [_T54, "s = f32[5,4] multiply(t, t)"],
        {"multiply": 1, "reduce": 1},
    ),
    (
        "f32[4,5]",
        "(f32[5], f32[5]) tuple(m, v)",
        [
            _T54,
            "s = f32[5,4] multiply(t, t)",
            "m = f32[5] reduce(t, zz), dimensions={1}, to_apply=add",
            "v = f32[5] reduce(s, zz), dimensions={1}, to_apply=add",
        ],
        {"multiply": 1, "reduce": 2, "tuple": 1},
    ),
    (
        "f32[8,16,32,64]",
        "f32[64,8,16] reduce(t, zz), dimensions={1}, to_apply=add",
        [_LARGE],
        {"reduce": 1, "transpose": 1},
    ),
)

_REDUCTIONS_LEFT_ALONE: dict[str, tuple[str, str, list[str]]] = {
    "small_in_another_order": (
        "f32[2,4,5]",
        "f32[5,4] reduce(t, zz), dimensions={2}, to_apply=add",
        ["t = f32[5,4,2] transpose(x0), dimensions={2,1,0}"],
    ),
    "what_others_read": (
        "f32[4,5]",
        "(f32[5], f32[5,4]) tuple(s, w)",
        [
            _T54,
            "s = f32[5] reduce(t, zz), dimensions={1}, to_apply=add",
            "w = f32[5,4] negate(t)",
        ],
    ),
    "what_is_read_by_more_than_reductions_further_on": (
        "f32[4,5]",
        "(f32[5], f32[5,4]) tuple(s, w)",
        [
            _T54,
            "e = f32[5,4] exponential(t)",
            "w = f32[5,4] negate(e)",
            "s = f32[5] reduce(t, zz), dimensions={1}, to_apply=add",
        ],
    ),
    "no_transpose": ("f32[5,4]", "f32[5] reduce(x0, zz), dimensions={1}, to_apply=add", []),
}


@pytest.mark.parametrize("case", _REDUCTIONS, ids=str)
def test_folds_into_reductions(case: tuple[str, str, list[str], dict[str, int]]) -> None:
    parameter, root, before, expected = case
    module = stated([parameter], root, _ZERO, *before)
    after = rewritten(module, TransposeFolding(TARGET), relative=1e-5)
    assert opcodes(after) == {**expected, "constant": 1}


@pytest.mark.parametrize("name", _REDUCTIONS_LEFT_ALONE)
def test_reductions_are_left(name: str) -> None:
    parameter, root, before = _REDUCTIONS_LEFT_ALONE[name]
    passed(stated([parameter], root, _ZERO, *before), TransposeFolding(TARGET), fires=False)


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(4)), st.sets(st.integers(0, 3), min_size=1), st.booleans())
def test_whatever_is_folded_is_the_same_reduction(
    order: list[int], reduced: set[int], is_large: bool
) -> None:
    sizes = (4, 16, 32, 17) if is_large else (4, 3, 2, 5)
    behind = [sizes[d] for d in order]
    kept = [size for d, size in enumerate(behind) if d not in reduced]

    def text(values: Iterable[int]) -> str:
        return ",".join(map(str, values))

    module, after = (
        stated(
            [f"s8[{text(sizes)}]"],
            f"s8[{text(kept)}] reduce(t, zz), dimensions={{{text(sorted(reduced))}}}, "
            "to_apply=add_s8",
            "zz = s8[] constant(7)",
            f"t = s8[{text(behind)}] transpose(x0), dimensions={{{text(order)}}}",
        )
        for _ in range(2)
    )
    TransposeFolding(TARGET).apply(after)
    assert_kept(module, after)


def _convolution(
    *, before: list[str], base: str, kernel: str, labels: str, row: int = 2
) -> HloModule:
    shape, window = f"f32[2,5,{row},6]", "window={size=2x3}"
    root = f"{shape} convolution({base}, {kernel}), {window}, dim_labels={labels}"
    return stated([f"f32[2,3,6,{row + 2}]", "f32[6,3,2,3]"], root, *before)


_NHWC = "x = f32[2,6,4,3] transpose(x0), dimensions={0,2,3,1}"
_HWIO = "k = f32[2,3,3,6] transpose(x1), dimensions={2,3,1,0}"


@pytest.mark.parametrize(
    ("before", "base", "kernel", "labels"),
    [
        ([_NHWC], "x", "x1", "b01f_oi01->b01f"),
        ([_HWIO], "x0", "k", "bf01_01io->b01f"),
        ([_NHWC, _HWIO], "x", "k", "b01f_01io->b01f"),
    ],
    ids=["input", "kernel", "both"],
)
def test_folds_into_a_convolution(before: list[str], base: str, kernel: str, labels: str) -> None:
    module = _convolution(before=before, base=base, kernel=kernel, labels=labels)
    assert opcodes(rewritten(module, TransposeFolding(TARGET), relative=1e-5)) == {"convolution": 1}


def test_a_convolution_in_the_order_of_tiles_is_left() -> None:
    """ChannelsLast would transpose its operands again: its rows are long enough."""
    long = _NHWC.replace("6,4,3", "6,6,3")
    module = _convolution(
        before=[long, _HWIO], base="x", kernel="k", labels="b01f_01io->b01f", row=4
    )
    passed(module, TransposeFolding(TARGET), fires=False)


def test_a_convolution_of_what_is_not_transposed_is_left() -> None:
    module = _convolution(before=[], base="x0", kernel="x1", labels="bf01_oi01->b01f")
    passed(module, TransposeFolding(TARGET), fires=False)


@st.composite
def _products(draw: st.DrawFn) -> tuple[list[str], str, list[str]]:
    """A dot of transposes, one of them reshaped to other dimensions in between."""
    sizes = st.integers(1, 4)
    contracted, free = draw(sizes), [draw(sizes) for _ in range(draw(st.integers(0, 2)))]
    dimensions = [contracted, *free]
    order = draw(st.permutations(range(len(dimensions))))
    source = [0] * len(dimensions)
    for number, d in enumerate(order):
        source[d] = dimensions[number]
    divided = [part for size in dimensions for part in ([2, 2] if size == 4 else [size])]
    divided = [part for size in divided for part in ([1, size] if draw(st.booleans()) else [size])]
    count = 0
    product = 1
    while product < contracted or (count == 0):
        product *= divided[count]
        count += 1
    contracting = ",".join(map(str, range(count)))
    result = ",".join(map(str, [3, *divided[count:]]))
    left = ",".join(map(str, [3, *divided[:count]]))
    left_numbers = ",".join(map(str, range(1, count + 1)))

    def text(values: list[int]) -> str:
        return ",".join(map(str, values))

    before = [
        f"t = f32[{text(dimensions)}] transpose(x1), dimensions={{{text(list(order))}}}",
        f"b = f32[{text(divided)}] reshape(t)",
    ]
    root = (
        f"f32[{result}] dot(x0, b), lhs_contracting_dims={{{left_numbers}}}, "
        f"rhs_contracting_dims={{{contracting}}}"
    )
    return [f"f32[{left}]", f"f32[{text(source)}]"], root, before


@settings(max_examples=60, deadline=None)
@given(_products())
def test_whatever_is_folded_is_the_same_product(
    product: tuple[list[str], str, list[str]],
) -> None:
    parameters, root, before = product
    module, after = (stated(parameters, root, *before) for _ in range(2))
    TransposeFolding(TARGET).apply(after)
    random = np.random.default_rng(0)
    arguments = [
        random.standard_normal(p.shape.dimensions).astype(np.float32)
        for p in module.entry.parameters
    ]
    assert_kept(module, after, arguments, relative=1e-5)
    assert any(i.opcode is Opcode.DOT for i in after.entry.instructions)

"""Dots as products of matrices, or of vectors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cuda_twin.programs import TARGET as GPU
from tests.processors import TARGET
from tests.unit.passes.passing import assert_kept, opcodes, passed, rewritten, stated
from xla_contract.types.opcode import Opcode
from xla_server.codegen.lower.contraction.dot import is_canonical
from xla_server.passes.canonicalize.dots.dot_canonicaliser import DotCanonicaliser
from xla_server.target.target import Target

FORMS = {
    "batch_behind": (
        ["f32[4,2,3]", "f32[3,5,2]"],
        "f32[2,4,5] dot(x0, x1), lhs_batch_dims={1}, rhs_batch_dims={2}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={0}",
        {"dot": 1, "transpose": 2},
    ),
    "two_contracted": (
        ["f32[4,2,3]", "f32[3,5,4]"],
        "f32[2,5] dot(x0, x1), lhs_contracting_dims={2,0}, rhs_contracting_dims={0,2}",
        {"dot": 1, "transpose": 2, "reshape": 2},
    ),
    "contracted_behind_and_before": (
        ["f32[2,4,3]", "f32[4,3,5]"],
        "f32[2,5] dot(x0, x1), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,1}",
        {"dot": 1, "reshape": 2},
    ),
    "contracted_in_the_order_of_one": (
        ["f32[2,4,3]", "f32[4,3,5]"],
        "f32[2,5] dot(x0, x1), lhs_contracting_dims={2,1}, rhs_contracting_dims={1,0}",
        {"dot": 1, "reshape": 2},
    ),
    "two_free": (
        ["f32[2,4,3]", "f32[5,3]"],
        "f32[2,4,5] dot(x0, x1), lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        {"dot": 1, "reshape": 2},
    ),
    "two_batches": (
        ["f32[2,3,4,5]", "f32[2,3,5,6]"],
        "f32[2,3,4,6] dot(x0, x1), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, "
        "lhs_contracting_dims={3}, rhs_contracting_dims={2}",
        {"dot": 1, "reshape": 3},
    ),
    "a_batch_of_one": (
        ["f32[1,4,5]", "f32[1,5,6]"],
        "f32[1,4,6] dot(x0, x1), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
        {"dot": 1, "reshape": 3},
    ),
    "outer": (["f32[4]", "f32[3]"], "f32[4,3] dot(x0, x1)", {"multiply": 1, "broadcast": 2}),
    "depth_of_one": (
        ["f32[4,1]", "f32[1,3]"],
        "f32[4,3] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        {"multiply": 1, "broadcast": 2, "reshape": 2},
    ),
    "batch_alone": (
        ["f32[4,3]", "f32[3,4]"],
        "f32[4,3] dot(x0, x1), lhs_batch_dims={0,1}, rhs_batch_dims={1,0}",
        {"multiply": 1, "broadcast": 1},
    ),
    "vectors": (
        ["f32[40]", "f32[40]"],
        "f32[] dot(x0, x1), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        {"multiply": 1, "reduce": 1, "constant": 1},
    ),
    "matrix_and_vector": (
        ["f32[4,9]", "f32[9]"],
        "f32[4] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        {"multiply": 1, "reduce": 1, "constant": 1, "broadcast": 1},
    ),
    "vector_and_matrix": (
        ["f32[2,1,9]", "f32[2,4,9]"],
        "f32[2,1,4] dot(x0, x1), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={2}",
        {"multiply": 1, "reduce": 1, "constant": 1, "broadcast": 1, "reshape": 2},
    ),
    "narrow_integers": (
        ["s8[4,9]", "u8[9,5]"],
        "u8[4,5] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        {"dot": 1, "convert": 1},
    ),
    "longs_both_read_with_strides": (
        ["s64[9,4]", "s64[5,9]"],
        "s64[4,5] dot(x0, x1), lhs_contracting_dims={0}, rhs_contracting_dims={1}",
        {"dot": 1, "transpose": 1},
    ),
    "integers": (
        ["s32[4,2,3]", "s32[3,2]"],
        "s32[4] dot(x0, x1), lhs_contracting_dims={2,1}, rhs_contracting_dims={0,1}",
        None,
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_fires(name: str) -> None:
    parameters, root, expected = FORMS[name]
    before = stated(parameters, root)
    after = rewritten(before, DotCanonicaliser(TARGET), relative=1e-6)
    counts = opcodes(after)
    # Unused instructions of the text are not part of the form.
    assert expected is None or counts == expected
    assert all(is_canonical(i) for i in after.entry.instructions if i.opcode is Opcode.DOT)


@pytest.mark.parametrize(
    ("left", "right", "lhs", "rhs"),
    [
        ("4,5", "5,6", 1, 0),
        ("5,4", "5,6", 0, 0),
        ("4,5", "6,5", 1, 1),
        ("5,4", "6,5", 0, 1),
    ],
)
def test_matrices_stay_however_they_lie(left: str, right: str, lhs: int, rhs: int) -> None:
    root = f"f32[4,6] dot(x0, x1), lhs_contracting_dims={{{lhs}}}, rhs_contracting_dims={{{rhs}}}"
    passed(stated([f"f32[{left}]", f"f32[{right}]"], root), DotCanonicaliser(TARGET), fires=False)


@pytest.mark.parametrize(
    ("kind", "lhs", "rhs"),
    [("s64", 1, 0), ("s64", 0, 0), ("s64", 1, 1), ("s32", 0, 1), ("u16", 1, 0)],
)
def test_integers_stay_where_a_kernel_reads_one_of_them_in_order(
    kind: str, lhs: int, rhs: int
) -> None:
    left, right = ("9,4", "4,9")[lhs], ("9,5", "5,9")[rhs]
    root = (
        f"{kind}[4,5] dot(x0, x1), lhs_contracting_dims={{{lhs}}}, rhs_contracting_dims={{{rhs}}}"
    )
    module = stated([f"{kind}[{left}]", f"{kind}[{right}]"], root)
    passed(module, DotCanonicaliser(TARGET), fires=False)


_VECTOR = "f32[600] dot(x0, {}), lhs_contracting_dims={{0}}, rhs_contracting_dims={{1}}"
_CONVERTED = "w = f32[600,500] convert(x1)"


@pytest.mark.parametrize(
    ("parameters", "root", "before", "expected"),
    [
        (["f32[500]", "f32[600,500]"], _VECTOR.format("x1"), [], {"dot": 1}),
        (
            ["f32[1,500]", "f32[600,500]"],
            "f32[1,600] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
            [],
            {"dot": 1},
        ),
        (
            ["f32[500]", "bf16[600,500]"],
            _VECTOR.format("w"),
            [_CONVERTED],
            {"multiply": 1, "reduce": 1},
        ),
    ],
    ids=["vector", "row", "computed"],
)
def test_a_large_matrix_that_is_stored_times_a_vector_stays_a_dot(
    parameters: list[str], root: str, before: list[str], expected: dict[str, int]
) -> None:
    after = stated(parameters, root, *before)
    DotCanonicaliser(TARGET).apply(after)
    counts = opcodes(after)
    # Unused instructions of the text stay if nothing is rewritten.
    assert {name: counts.get(name, 0) for name in ("dot", "multiply", "reduce")} == {
        name: expected.get(name, 0) for name in ("dot", "multiply", "reduce")
    }
    assert all(is_canonical(i) for i in after.entry.instructions if i.opcode is Opcode.DOT)
    assert_kept(stated(parameters, root, *before), after, relative=1e-5)


@pytest.mark.parametrize(
    ("rows", "expected"), [(1, "reduce"), (3, "reduce"), (4, "dot")], ids=["vector", "few", "more"]
)
def test_fewer_sums_than_work_items_need_are_a_reduction(rows: int, expected: str) -> None:
    module = stated(
        [f"f32[{rows},300000]", "f32[300000]"],
        f"f32[{rows}] dot(x0, x1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}",
    )
    after = rewritten(module, DotCanonicaliser(TARGET), relative=1e-5)
    found = opcodes(after)
    assert (found.get("dot", 0), found.get("reduce", 0)) == (expected == "dot", expected != "dot")


@pytest.mark.parametrize(
    ("parameters", "numbers"),
    [
        (["f32[2,1,9]", "f32[2,9,4]"], (0, 0, 2, 1)),
        (["f32[2,1,9]", "f32[9,4,2]"], (0, 2, 2, 0)),
        (["f32[2,1,9]", "f32[4,2,9]"], (0, 1, 2, 2)),
    ],
    ids=["columns", "batch behind", "batch between"],
)
def test_a_vector_and_a_batch_of_matrices_in_any_order(
    parameters: list[str], numbers: tuple[int, ...]
) -> None:
    batch, other, left, right = numbers
    module = stated(
        parameters,
        f"f32[2,1,4] dot(x0, x1), lhs_batch_dims={{{batch}}}, rhs_batch_dims={{{other}}}, "
        f"lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}",
    )
    after = rewritten(module, DotCanonicaliser(TARGET), relative=1e-6)
    assert (opcodes(after)["multiply"], opcodes(after)["reduce"]) == (1, 1)


def test_columns_that_a_kernel_multiplies_stay() -> None:
    module = stated(
        ["f32[4,1,500]", "f32[4,500,600]"],
        "f32[4,1,600] dot(x0, x1), lhs_batch_dims={0}, rhs_batch_dims={0}, "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
    )
    passed(module, DotCanonicaliser(TARGET), fires=False)


@st.composite
def dots(draw: st.DrawFn) -> tuple[list[str], str]:
    """A dot with its dimensions shuffled on both sides."""
    sizes = st.integers(1, 3)
    batch, contracted = ([draw(sizes) for _ in range(draw(st.integers(0, 2)))] for _ in range(2))
    free = [[draw(sizes) for _ in range(draw(st.integers(0, 2)))] for _ in range(2)]
    shapes, numbers = [], []
    for own in free:
        parts = [*(("b", n, s) for n, s in enumerate(batch))]
        parts += [("k", n, s) for n, s in enumerate(contracted)]
        free_parts = [("f", n, s) for n, s in enumerate(own)]
        order = draw(st.permutations([*parts, *free_parts]))
        shapes.append("f32[" + ",".join(str(size) for _, _, size in order) + "]")
        numbers.append(
            {
                letter: [
                    next(at for at, part in enumerate(order) if part[:2] == (letter, n))
                    for n in range(count)
                ]
                for letter, count in (("b", len(batch)), ("k", len(contracted)))
            }
        )
        own[:] = [size for letter, _, size in order if letter == "f"]
    result = ",".join(map(str, [*batch, *free[0], *free[1]]))
    text = f"f32[{result}] dot(x0, x1)"
    for side, number in zip(("lhs", "rhs"), numbers, strict=True):
        for letter, word in (("b", "batch"), ("k", "contracting")):
            if number[letter]:
                inside = ",".join(map(str, number[letter]))
                text += f", {side}_{word}_dims={{{inside}}}"
    return shapes, text


@settings(max_examples=60, deadline=None)
@given(dots())
def test_every_dot_becomes_canonical(dot: tuple[list[str], str]) -> None:
    before = stated(*dot)
    changed = stated(*dot)
    DotCanonicaliser(TARGET).apply(changed)
    assert all(is_canonical(i) for i in changed.entry.instructions if i.opcode is Opcode.DOT)
    random = np.random.default_rng(0)
    arguments = [
        random.standard_normal(p.shape.dimensions).astype(np.float32)
        for p in before.entry.parameters
    ]
    assert_kept(before, changed, arguments, relative=1e-5)


@pytest.mark.parametrize(
    ("target", "kind", "permutation", "contracted"),
    [(TARGET, "f32", (0, 2, 3, 1), 2), (GPU, "f32", (0, 2, 1, 3), 1), (GPU, "s8", (0, 2, 3, 1), 2)],
)
def test_runs_of_neighbours_stay_together_for_libraries_of_gpus(
    target: Target, kind: str, permutation: tuple[int, ...], contracted: int
) -> None:
    """The values of attention: [batch, positions, heads, features]."""
    result = "s32" if kind == "s8" else kind
    module = stated(
        [f"{kind}[2,3,4,8]", f"{kind}[2,8,3,16]"],
        f"{result}[2,3,4,16] dot(x0, x1), lhs_batch_dims={{0,1}}, rhs_batch_dims={{0,2}}, "
        "lhs_contracting_dims={3}, rhs_contracting_dims={1}",
    )
    after = rewritten(module, DotCanonicaliser(target), relative=1e-6)
    (moved,) = [i for i in after.entry.instructions if i.opcode is Opcode.TRANSPOSE]
    (dot,) = [i for i in after.entry.instructions if i.opcode is Opcode.DOT]
    assert moved.attributes.permutation == permutation
    assert dot.attributes.dimension_numbers.rhs_contracting_dimensions == (contracted,)

"""Epilogues of products that a library computes: what they are, and results on the twin."""

from collections.abc import Mapping

import numpy as np
import pytest

from tests.cuda.checks.outcomes import assert_near
from tests.cuda_twin.lowered import compiled, grids
from tests.cuda_twin.rows import plans, results_of
from tests.unit.codegen.compiled import interpreted
from tests.unit.passes.passing import opcodes, passed, rewritten, stated, tame
from xla_contract.types.opcode import Opcode
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.gpu.plans.library_plans import GemmPlan
from xla_server.fusion.product_epilogues import ProductEpilogues
from xla_server.ir.module import HloModule
from xla_server.target.gpu.epilogue import Activation, Epilogue

DOT = "d = f32[8,6] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
FACTORS = ["f32[8,5]", "f32[5,6]"]
WIDE = "wide = f32[8,6] broadcast(x2), dimensions={1}"
RELU = Activation.RELU

CONSTANTS = {"half": 0.5, "one": 1, "slope": 0.79788458, "cube": 0.044715, "zero": 0, "low": -0.0}


def full() -> list[str]:
    """Return constants, and arrays full of them."""
    lines = []
    for name, number in CONSTANTS.items():
        lines.append(f"{name}0 = f32[] constant({number})")
        lines.append(f"{name} = f32[8,6] broadcast({name}0), dimensions={{}}")
    return lines


def gelu(x: str, cube: str = "cube") -> list[str]:
    """Return the formula of gelu as JAX writes it; its last is called `last`."""
    return [
        f"square = f32[8,6] multiply({x}, {x})",
        f"third = f32[8,6] multiply(square, {x})",
        f"small = f32[8,6] multiply(third, {cube})",
        f"inner = f32[8,6] add({x}, small)",
        "sloped = f32[8,6] multiply(inner, slope)",
        "tanh = f32[8,6] tanh(sloped)",
        "above = f32[8,6] add(tanh, one)",
        "share = f32[8,6] multiply(above, half)",
    ]


EPILOGUES: Mapping[str, tuple[list[str], str, list[str], Epilogue]] = {
    "scale": ([], "multiply(half, d)", [], Epilogue(0.5)),
    "addend": (["f32[8,6]"], "add(x2, d)", [], Epilogue(weight=1)),
    "difference": (["f32[8,6]"], "subtract(d, x2)", [], Epilogue(weight=-1)),
    "update": (
        ["f32[8,6]"],
        "subtract(x2, scaled)",
        ["scaled = f32[8,6] multiply(d, half)"],
        Epilogue(-0.5, 1.0),
    ),
    "bias": (["f32[6]"], "add(d, wide)", [WIDE], Epilogue(has_bias=True)),
    "relu": ([], "maximum(d, zero)", [], Epilogue(activation=RELU)),
    "all": (
        ["f32[6]", "f32[8,6]"],
        "maximum(zero, moved)",
        [
            WIDE,
            "scaled = f32[8,6] multiply(d, half)",
            "sum = f32[8,6] add(scaled, x3)",
            "moved = f32[8,6] add(sum, wide)",
        ],
        Epilogue(0.5, 1.0, True, RELU),
    ),
    "gelu": ([], "multiply(d, share)", gelu("d"), Epilogue(activation=Activation.GELU)),
    "gelu_of_a_sum": (
        ["f32[6]"],
        "multiply(share, sum)",
        [WIDE, "sum = f32[8,6] add(wide, d)", *gelu("sum")],
        Epilogue(has_bias=True, activation=Activation.GELU),
    ),
    "other_dimensions": (
        ["f32[6]", "f32[2,4,6]"],
        "add(sum, x3)",
        [
            "split = f32[2,4,6] reshape(d)",
            "rows = f32[2,4,6] broadcast(x2), dimensions={2}",
            "sum = f32[2,4,6] add(split, rows)",
        ],
        Epilogue(1.0, 1.0, True),
    ),
    "an_addend_that_is_a_product": (
        ["f32[8,5]"],
        "add(d, e)",
        ["e = f32[8,6] dot(x2, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"],
        Epilogue(weight=1),
    ),
}


def module_of(parameters: list[str], operation: str, before: list[str]) -> HloModule:
    shape = "f32[2,4,6]" if "f32[2,4,6]" in parameters else "f32[8,6]"
    return stated([*FACTORS, *parameters], f"{shape} {operation}", *full(), DOT, *before)


@pytest.mark.parametrize("name", EPILOGUES)
def test_an_epilogue_is_part_of_the_librarys_product(name: str) -> None:
    parameters, operation, before, epilogue = EPILOGUES[name]
    module = module_of(parameters, operation, before)
    assert opcodes(rewritten(module, ProductEpilogues()))["fusion"] == 1
    code = compiled(module)
    found = [plan for plan in plans(code) if isinstance(plan, GemmPlan)]
    assert grids(code) == []
    assert found[-1].epilogue == epilogue
    random = np.random.default_rng(0)
    arguments = [tame(part.shape, random) for part in module.entry.parameters]
    assert_near(results_of(code, arguments), interpreted(module, arguments))


OTHERS: tuple[tuple[list[str], str, list[str]], ...] = (
    ([], "negate(d)", []),
    (["f32[8,6]"], "divide(d, x2)", []),
    (["f32[8,6]"], "multiply(d, x2)", []),
    ([], "multiply(d, zero)", []),
    ([], "add(d, d)", []),
    ([], "maximum(d, one)", []),
    ([], "maximum(d, low)", []),
    (["f32[8,6]"], "add(d, neg)", ["neg = f32[8,6] negate(x2)"]),
    (["f32[8]"], "add(d, w)", ["w = f32[8,6] broadcast(x2), dimensions={0}"]),
    ([], "subtract(scaled, d)", ["scaled = f32[8,6] multiply(d, half)"]),
    ([], "multiply(d, share)", gelu("d", cube="half")),
    ([], "multiply(product, tanh)", [*gelu("d"), "product = f32[8,6] multiply(d, share)"]),
    (["f32[8,6]"], "add(d, x2), control-predecessors={neg}", ["neg = f32[] negate(one0)"]),
)


@pytest.mark.parametrize("case", OTHERS, ids=str)
def test_what_no_library_does_is_left(case: tuple[list[str], str, list[str]]) -> None:
    passed(module_of(*case), ProductEpilogues(), fires=False)


@pytest.mark.parametrize(
    ("kind", "zero", "operation"),
    [("s32", "0", "maximum"), ("f64", "0", "maximum"), ("c64", "(0, 0)", "multiply")],
)
def test_types_without_the_epilogue_are_left(kind: str, zero: str, operation: str) -> None:
    module = stated(
        [f"{kind}[8,5]", f"{kind}[5,6]"],
        f"{kind}[8,6] {operation}(d, zeros)",
        DOT.replace("f32", kind),
        f"zero = {kind}[] constant({zero})",
        f"zeros = {kind}[8,6] broadcast(zero), dimensions={{}}",
    )
    passed(module, ProductEpilogues(), fires=False)


def test_a_product_is_its_last_operation_once() -> None:
    """Two products of one sum: the second is the addend of the first."""
    after = passed(module_of(*EPILOGUES["an_addend_that_is_a_product"][:3]), ProductEpilogues())
    assert opcodes(after) == {"dot": 1, "fusion": 1}


def test_a_result_that_is_read_further_is_stored_once() -> None:
    """Residuals: the sum is the addend of the next product."""
    module = stated(
        ["f32[8,6]", "f32[6,6]", "f32[8,6]"],
        "f32[8,6] add(sum, e)",
        "d = f32[8,6] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
        "sum = f32[8,6] add(d, x2)",
        "e = f32[8,6] dot(sum, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )
    assert opcodes(rewritten(module, ProductEpilogues())) == {"fusion": 2}
    last = compiled(module).thunks[-1]
    assert isinstance(last, KernelThunk)
    # The sum is an operand of the product, too, which may not be overwritten before it is read.
    assert last.in_place == ()


def test_an_addend_that_nothing_else_reads_is_overwritten() -> None:
    module = module_of(*EPILOGUES["an_addend_that_is_a_product"][:3])
    *_, last = compiled(module).thunks
    assert isinstance(last, KernelThunk)
    assert last.in_place == ((last.writes[0], last.arguments[2]),)


def test_vectors_are_loop_nests_with_their_epilogue() -> None:
    module = stated(
        ["f32[5]", "f32[5,6]", "f32[6]"],
        "f32[6] add(d, x2)",
        "d = f32[6] dot(x0, x1), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    )
    code = compiled(module)
    assert (len(grids(code)), plans(code)) == (1, [])
    random = np.random.default_rng(0)
    arguments = [tame(part.shape, random) for part in module.entry.parameters]
    assert_near(results_of(code, arguments), interpreted(module, arguments))


def test_relu_of_nan_is_zero_as_in_the_library() -> None:
    module = module_of(*EPILOGUES["relu"][:3])
    x, y = np.full((8, 5), np.nan, np.float32), np.ones((5, 6), np.float32)
    (found,) = results_of(compiled(module), [x, y])
    assert not found.any()
    assert any(i.opcode is Opcode.FUSION for i in passed(module, ProductEpilogues()).instructions())

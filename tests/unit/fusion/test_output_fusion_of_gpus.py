"""Kernels of small products for a GPU: what they go on with, and results on the twin."""

import numpy as np
import pytest

from tests.cuda.checks.outcomes import assert_near
from tests.cuda_twin.lowered import compiled, grids
from tests.cuda_twin.rows import plans, results_of
from tests.unit.codegen.compiled import interpreted
from tests.unit.passes.passing import stated, tame

WIDE = "wide = f32[32,48] broadcast(x2), dimensions={1}"


def sums(of: str) -> list[str]:
    """Return what repeats the sum of each row of an array."""
    return [
        "zero = f32[] constant(0)",
        f"s = f32[32] reduce({of}, zero), dimensions={{1}}, to_apply=add",
        "sums = f32[32,48] broadcast(s), dimensions={0}",
    ]


PROGRAMS: tuple[tuple[list[str], str, list[str], int], ...] = (
    (
        ["f32[32,48]"],
        "f32[32,48] select(p, d, x2)",
        ["p = pred[32,48] compare(x2, e), direction=GT", "e = f32[32,48] exponential(x2)"][::-1],
        1,
    ),
    (["f32[48]"], "f32[32,48] tanh(s)", [WIDE, "s = f32[32,48] add(d, wide)"], 1),
    (["f32[1536]"], "f32[1536] add(f, x2)", ["f = f32[1536] reshape(d)"], 1),
    ([], "(f32[32,48], f32[32,48]) tuple(d, minus)", ["minus = f32[32,48] negate(d)"], 1),
    ([], "f32[32,48] divide(d, sums)", sums("d"), 2),
    (["f32[32,9]"], "f32[32,48] multiply(d, sums)", sums("x2"), 2),
)
"""Parameters, root, what is before it, and launches."""


@pytest.mark.parametrize("depth", [20, 200])
@pytest.mark.parametrize("case", PROGRAMS, ids=str)
def test_a_small_product_goes_on_with_elements(
    case: tuple[list[str], str, list[str], int], depth: int
) -> None:
    parameters, root, before, launches = case
    dot = "d = f32[32,48] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    factors = [f"f32[32,{depth}]", f"f32[{depth},48]"]
    module = stated([*factors, *parameters], root, dot, *before)
    code = compiled(module)
    if depth == 20:
        assert (len(plans(code)), len(grids(code))) == (0, launches)
    else:
        assert len(plans(code)) == 1
    random = np.random.default_rng(0)
    arguments = [tame(part.shape, random) for part in module.entry.parameters]
    assert_near(results_of(code, arguments), interpreted(module, arguments))

import pytest

from tests.unit.passes.passing import stated
from xla_server.evaluator.cost_analysis import Cost
from xla_server.evaluator.evaluation_cost import (
    cost_once,
    evaluation_cost,
    evaluations_once,
    instruction_cost_once,
)

ZERO = "zero = f32[] constant(0)"


@pytest.mark.parametrize(
    ("parameters", "root", "evaluations", "each"),
    [
        (["f32[3,4]"], "f32[3,4] tanh(x0)", 12, Cost(transcendentals=1)),
        (["f32[3,4]"], "f32[3,4] negate(x0)", 12, Cost(flops=1)),
        (["f32[3,4]"], "f32[3] reduce(x0, zero), dimensions={1}, to_apply=add", 12, Cost(flops=1)),
        (
            ["f32[3,9]"],
            "f32[3,7] reduce-window(x0, zero), window={size=1x3}, to_apply=add",
            63,
            Cost(flops=1),
        ),
        (
            ["f32[3,4]", "f32[4,5]"],
            "f32[3,5] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
            60,
            Cost(flops=2),
        ),
        (["f32[3,4]", "f32[3,4]"], "f32[3,4] map(x0, x1), to_apply=add", 12, Cost(flops=1)),
    ],
)
def test_every_element_is_evaluated_once(
    parameters: list[str], root: str, evaluations: float, each: Cost
) -> None:
    module = stated(parameters, root, ZERO)
    instruction = module.entry.root
    assert evaluations_once(instruction) == evaluations
    assert evaluation_cost(instruction) == each
    assert instruction_cost_once(instruction) == each * evaluations
    assert cost_once(module) == each * evaluations

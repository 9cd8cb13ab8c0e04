import dataclasses

import pytest

from tests.unit.passes.passing import stated
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.codegen.kernel_ir.analysis.counts import cost_of
from xla_server.evaluator.cost_analysis import Cost
from xla_server.evaluator.evaluation_cost import (
    cost_once,
    evaluation_cost,
    evaluation_time,
    evaluations_once,
    instruction_cost_once,
)
from xla_server.ir.text.parser import parse_module
from xla_server.ops.elementwise.elementwise_table import ROWS

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


@pytest.mark.parametrize("opcode", ROWS, ids=lambda opcode: opcode.value)
def test_an_operation_takes_the_time_that_its_kernel_function_is_counted_with(
    opcode: Opcode,
) -> None:
    module = stated(["f32[3]"], "f32[3] negate(x0)")
    instruction = dataclasses.replace(module.entry.root, opcode=opcode)
    row = ROWS[opcode]
    function = row.kernel_function(ElementType.F32, "f32")
    assert evaluation_time(instruction) == cost_of(function) == row.cost


@pytest.mark.parametrize(
    ("root", "time"),
    [
        ("f32[3] reduce(x0, zero), dimensions={1}, to_apply=norm", 4 + 1 + 1 + 6 + 12),
        ("f32[3,2] reduce-window(x0, zero), window={size=1x3}, to_apply=norm", 1 + 1 + 6 + 12),
        ("f32[3,4] map(x0, x0), to_apply=norm", 1 + 1 + 6 + 12),
        ("f32[3,3] dot(x0, x0), lhs_contracting_dims={1}, rhs_contracting_dims={1}", 2),
    ],
)
def test_a_formula_takes_the_time_of_its_operations(root: str, time: float) -> None:
    norm = """norm { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] add(a, b)
    d = f32[] multiply(c, c) e = f32[] divide(d, b) ROOT f = f32[] sqrt(e) }"""
    module = parse_module(
        f"HloModule m\n{norm}\nENTRY e {{ x0 = f32[3,4] parameter(0)\n{ZERO}\nROOT r = {root} }}"
    )
    assert evaluation_time(module.entry.root) == time

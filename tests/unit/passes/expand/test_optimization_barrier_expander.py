"""opt-barrier after the passes that it restricts."""

from tests.unit.passes.passing import opcodes, passed, rewritten, stated
from xla_server.passes.expand.optimization_barrier_expander import OptimizationBarrierExpander


def test_a_barrier_is_replaced_with_its_operand() -> None:
    module = stated(
        ["f32[4]", "f32[4]"],
        "f32[4] add(e, x0)",
        "t = (f32[4], f32[4]) tuple(x0, x1)",
        "b = (f32[4], f32[4]) opt-barrier(t)",
        "c = (f32[4], f32[4]) opt-barrier(b)",
        "e = f32[4] get-tuple-element(c), index=1",
    )
    after = rewritten(module, OptimizationBarrierExpander())
    assert opcodes(after) == {"tuple": 1, "get-tuple-element": 1, "add": 1}


def test_a_barrier_at_the_root_is_replaced() -> None:
    module = stated(["f32[4]"], "f32[4] opt-barrier(y)", "y = f32[4] negate(x0)")
    assert opcodes(rewritten(module, OptimizationBarrierExpander())) == {"negate": 1}


def test_a_program_without_barriers_stays() -> None:
    passed(stated(["f32[4]"], "f32[4] negate(x0)"), OptimizationBarrierExpander(), fires=False)

"""Nodes that are made once, guards, clamped indices, and the bound on copies."""

from typing import Any

import pytest

from tests.unit.codegen.trace.traced import expression, traced
from tests.unit.passes.passing import stated
from xla_contract.types.element_type import ElementType
from xla_server.codegen.trace import tracer as tracing
from xla_server.codegen.trace.graph import Apply, Immediate, Load
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import NEVER, TooManyCopiesError, Tracer, integer
from xla_server.ir.analysis.affine import Affine, Variable, variable
from xla_server.ir.explicit_stack import result_of
from xla_server.ir.module import HloInstruction


def test_an_element_read_twice_is_one_node() -> None:
    found = traced(["f32[4]"], "f32[4] multiply(e, e)", "e = f32[4] exponential(x0)")
    assert isinstance(found, Apply)
    assert found.operands[0] is found.operands[1]


def test_nodes_name_the_instruction_they_are_an_element_of() -> None:
    module = stated(["f32[4]"], "f32[4] negate(e)", "e = f32[4] exponential(x0)")
    root, origins = module.entry.root, dict[Any, HloInstruction]()
    node = Tracer(RULES, {module.entry.parameters[0]: 0}, origins).value(root, (Affine(1),))
    assert {found.name for found in origins.values()} == {root.name, root.operands[0].name}
    assert origins[node] is root


def test_inside_tests_only_what_an_index_can_be() -> None:
    tracer, index = Tracer(RULES, {}), variable(Variable(8, "i"))
    assert tracer.inside(index, 0, 8) is None
    assert tracer.inside(index, 8, 12) is NEVER
    tests = [tracer.inside(index, low, high) for low, high in ((0, 5), (2, 8), (2, 5))]
    assert [expression(test) for test in tests if test is not None] == [
        "lt(i, 5)",
        "ge(i, 2)",
        "bit_and(ge(i, 2), lt(i, 5))",
    ]


def test_a_value_that_is_never_chosen_is_not_computed() -> None:
    tracer, (one, other) = Tracer(RULES, {}), (integer(1), integer(2))
    assert tracer.select(NEVER, one, other) is other


def test_a_clamped_number_is_an_index_within_bounds() -> None:
    tracer = Tracer(RULES, {})
    signed, unsigned = (
        Load(0, KERNEL_TYPE[kind], Affine(0), 1) for kind in (ElementType.S32, ElementType.U64)
    )
    index = tracer.clamped(signed, 3)
    assert (index.low, index.high) == (0, 3)
    assert tracer.clamped(signed, 0) == Affine(0)
    # Beyond i64 a number of u64 would become negative.
    (atom, _), *_ = tracer.clamped(unsigned, 3).terms
    assert "to_i64(minimum(" in expression(atom.node)  # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize(
    ("kind", "number", "clamped"), [("i32", 2, 2), ("i32", -7, 0), ("u64", 2**64 - 1, 3)]
)
def test_a_clamped_constant_is_a_constant(kind: str, number: int, clamped: int) -> None:
    assert Tracer(RULES, {}).clamped(Immediate.of(kind, number), 3) == Affine(clamped)


def test_loads_under_a_guard_have_it_and_those_outside_do_not() -> None:
    module = stated(["f32[4]"], "f32[4] copy(x0)")
    (parameter,) = module.entry.parameters
    tracer, index = Tracer(RULES, {parameter: 0}), (Affine(1),)
    outer, inner = (tracer.apply("lt", [integer(0), integer(n)], "b1") for n in (1, 2))
    element = tracer.guarded(outer, tracer.guarded(inner, tracer.element(parameter, index)))
    node = result_of(element)
    assert isinstance(node, Load)
    assert node.guard is tracer.apply("bit_and", [outer, inner], "b1")
    plain = tracer.value(parameter, index)
    assert isinstance(plain, Load)
    assert plain.guard is None


def test_copies_of_copies_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = ["a0 = f32[9] exponential(x0)"]
    for n in range(1, 5):
        sums += [f"back{n} = f32[9] reverse(a{n - 1}), dimensions={{0}}"]
        sums += [f"moved{n} = f32[9] pad(a{n - 1}, z), padding={n}_{-n}"]
        sums += [f"a{n} = f32[9] add(back{n}, moved{n})"]
    assert traced(["f32[9]"], "f32[9] negate(a4)", *sums)
    monkeypatch.setattr(tracing, "MAX_ELEMENT_COPIES", 10)
    rule = r"^a kernel must compute at most 10 elements more than it has instructions, got more at"
    with pytest.raises(TooManyCopiesError, match=rule):
        traced(["f32[9]"], "f32[9] negate(a4)", *sums)

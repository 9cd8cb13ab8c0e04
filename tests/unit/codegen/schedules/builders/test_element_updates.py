"""Chains of updates, and their stores."""

from tests.unit.codegen.trace.traced import expression
from tests.unit.passes.passing import stated
from xla_server.codegen.schedules.builders.element_updates import chain_of, update_stores
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Tracer
from xla_server.ir.analysis.affine import Affine

PARAMETERS = ["f32[6,8]", "f32[2,1]", "s32[]"]
ZERO = "zero = s32[] constant(0)"
FIRST = "first = f32[6,8] dynamic-update-slice(x0, x1, zero, zero)"


def test_a_chain_ends_at_what_is_no_small_update() -> None:
    root = "f32[6,8] dynamic-update-slice(first, x1, x2, zero)"
    entry = stated(PARAMETERS, root, ZERO, FIRST).entry
    first = entry.root.operands[0]
    assert chain_of(entry.root, 2) == ([first, entry.root], entry.parameters[0])
    assert chain_of(entry.root, 1) == ([], entry.root)
    assert chain_of(entry.parameters[0], 2) == ([], entry.parameters[0])


def test_an_update_stores_each_element_of_its_box_in_bounds() -> None:
    root = "f32[6,8] dynamic-update-slice(x0, x1, x2, three)"
    entry = stated(PARAMETERS, root, "three = s32[] constant(3)").entry
    tracer = Tracer(RULES, {each: n for n, each in enumerate(entry.parameters)})
    stores = update_stores(tracer, entry.root, 7)
    assert [each.argument for each in stores] == [7, 7]
    assert [expression(each.value) for each in stores] == ["x1[0]", "x1[1]"]
    # One row below the other, wherever the first is: at 0 ... 4, and at 3 along a row.
    one, other = (each.offset for each in stores)
    assert other + one * -1 == Affine(8)
    assert (one.low, other.high) == (3, 5 * 8 + 3)

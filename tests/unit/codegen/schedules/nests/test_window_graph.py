"""Windows that tiles are for, and the axes that they have."""

from collections.abc import Mapping, Sequence

import pytest

from tests.unit.passes.passing import stated
from xla_contract.types.opcode import Opcode
from xla_server.codegen.schedules.nests.window_graph import (
    AxisFinder,
    MakeBy,
    OtherWindowsError,
    traced,
)
from xla_server.codegen.trace.graph import Store
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.tracer import Index, Rule, Tracer
from xla_server.ir.analysis.affine import Variable, linear, variable

ZERO = "zero = f32[] constant(0)"


def _sums(name: str, result: str, form: str, operand: str = "x0") -> str:
    return f"{name} = {result} reduce-window({operand}, zero), window={{{form}}}, to_apply=add"


def _made(parameters: Sequence[str], root: str, *before: str) -> tuple[tuple[int, ...], MakeBy]:
    """Return the dimensions of the root and what makes the store of an element."""
    module = stated(list(parameters), root, ZERO, *before)
    result = module.entry.root
    kind, sizes = KERNEL_TYPE[result.shape.element_type], result.shape.dimensions
    numbers = {each: n for n, each in enumerate(module.entry.parameters)}

    def make(index: Index, rules: Mapping[Opcode, Rule]) -> Sequence[Store]:
        value = Tracer(rules, numbers).value(result, index)
        return [Store(len(numbers), kind, linear(index, sizes), value)]

    return sizes, make


def _axes(parameters: Sequence[str], root: str, *before: str) -> list[tuple[int, int, int]]:
    """Return positions, elements and size of the window of each axis."""
    axes = AxisFinder(*_made(parameters, root, *before)).axes
    return [(axis.size, axis.base, axis.window.size) for axis in axes]


def test_dimensions_that_no_window_covers_are_one_axis() -> None:
    sums = _sums("s", "f32[4,5,92]", "size=1x1x9")
    assert _axes(["f32[4,5,100]"], "f32[4,5,92] negate(s)", sums) == [(20, 20, 1), (92, 100, 9)]
    behind = _sums("s", "f32[92,4,5]", "size=9x1x1")
    found = _axes(["f32[100,4,5]"], "f32[92,4,5] negate(s)", behind)
    assert found == [(92, 100, 9), (20, 20, 1)]


def test_dimensions_that_an_operand_is_broadcast_along_are_axes_of_their_own() -> None:
    broadcast = "b = f32[4,5,100] broadcast(x1), dimensions={1}"
    product = "p = f32[4,5,100] multiply(x0, b)"
    sums = _sums("s", "f32[4,5,92]", "size=1x1x9", "p")
    parameters = ["f32[4,5,100]", "f32[5]"]
    found = _axes(parameters, "f32[4,5,92] negate(s)", broadcast, product, sums)
    assert found == [(4, 4, 1), (5, 5, 1), (92, 100, 9)]


def test_dimensions_of_one_element_are_no_axis() -> None:
    sums = _sums("s", "f32[1,92]", "size=1x9")
    assert _axes(["f32[1,100]"], "f32[1,92] negate(s)", sums) == [(92, 100, 9)]


def test_elements_are_those_before_and_results_those_behind_the_windows() -> None:
    sums = _sums("s", "f32[92]", "size=9", "e")
    sizes, make = _made(["f32[100]"], "f32[92] negate(s)", "e = f32[100] exponential(x0)", sums)
    loop, element = Variable(sizes[0], "i"), Variable(100, "p")
    graph = traced(make, [loop], (variable(loop),), (variable(element),))
    (window,) = graph.windows
    assert graph.bases == (100,)
    assert window.function == "add"
    assert window.variables == {loop}
    assert window.element.variables == {element}
    assert [each.value for each in graph.elements] == [window.element]
    assert graph.stores[0].value.variables == {loop}


REFUSED: Mapping[str, tuple[list[str], str, tuple[str, ...]]] = {
    "no window": (["f32[92]"], "f32[92] negate(x0)", ()),
    "two forms": (
        ["f32[100]"],
        "f32[92] add(s, t)",
        (_sums("s", "f32[92]", "size=9"), _sums("t", "f32[92]", "size=1 pad=-4_-4")),
    ),
    "operands of two sizes": (
        ["f32[100]", "f32[101]"],
        "f32[92] add(s, t)",
        (_sums("s", "f32[92]", "size=9"), _sums("t", "f32[92]", "size=9 pad=0_-1", "x1")),
    ),
    "results at another index": (
        ["f32[100]"],
        "f32[92] reverse(s), dimensions={0}",
        (_sums("s", "f32[92]", "size=9"),),
    ),
    "results under a test": (
        ["f32[100]"],
        "f32[94] pad(s, zero), padding=1_1",
        (_sums("s", "f32[92]", "size=9"),),
    ),
    "windows over windows": (
        ["f32[100]"],
        "f32[92] negate(t)",
        (
            _sums("s", "f32[100]", "size=9 pad=4_4"),
            _sums("t", "f32[92]", "size=9", "s"),
        ),
    ),
    "sums that are rounded": (
        ["bf16[100]", "bf16[]"],
        "bf16[92] reduce-window(x0, x1), window={size=9}, to_apply=add_bf16",
        (),
    ),
    "a sum of a row beside them": (
        ["f32[100]"],
        "f32[92] add(s, b)",
        (
            _sums("s", "f32[92]", "size=9"),
            "r = f32[] reduce(x0, zero), dimensions={0}, to_apply=add",
            "b = f32[92] broadcast(r), dimensions={}",
        ),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_windows_are_refused(name: str) -> None:
    parameters, root, before = REFUSED[name]
    with pytest.raises(OtherWindowsError):
        AxisFinder(*_made(parameters, root, *before))

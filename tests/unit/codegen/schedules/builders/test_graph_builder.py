"""Statements of nodes: where they stand, and what is stored."""

from collections.abc import Sequence

import pytest

from tests.unit.codegen.schedules.graphs import BF16, F32, function, load, row, store
from xla_server.codegen.kernel_ir.builder import Loop
from xla_server.codegen.kernel_ir.expressions import Const, Expression, Usage
from xla_server.codegen.kernel_ir.numba_text import NumbaText
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.graph_builder import GraphBuilder, applied
from xla_server.codegen.trace.graph import Immediate, Load, Reduction, Store
from xla_server.ir.analysis.affine import Affine, Variable, variable
from xla_server.ir.explicit_stack import Deep

ROWS, COLUMNS = Variable(6, "i"), Variable(40, "j")
ELEMENT = load(row(ROWS, COLUMNS))
OF_ROW = load(variable(ROWS), argument=2)
SCALAR = load(Affine(0), argument=3)


class _Nested(GraphBuilder):
    """Loops over rows and columns."""

    def lines(self, stores: Sequence[Store]) -> list[str]:
        """Return the text of the stores inside of the loops."""
        with Loop(self._top, "r", ROWS.size) as rows:
            self._indices[ROWS], self._bodies[ROWS] = rows.axis, rows
            with Loop(rows, "c", COLUMNS.size) as columns:
                self._indices[COLUMNS], self._bodies[COLUMNS] = columns.axis, columns
                self._store(stores, columns)
        return NumbaText().lines(self._top.statements)

    def usages(self) -> dict[int, Usage]:
        """Return the use of each argument."""
        return {number: buffer.usage for number, buffer in self._buffers.items()}

    def _reduced(self, reduction: Reduction) -> Deep[Sequence[Expression]]:
        raise AssertionError("no reductions")


def _lines(*stores: Store) -> list[str]:
    return _Nested(stores).lines(stores)


def test_a_node_stands_in_the_innermost_loop_that_it_varies_with() -> None:
    of_row = function("exp_f32", function("mul", OF_ROW, SCALAR))
    lines = _lines(store(row(ROWS, COLUMNS), function("add", ELEMENT, of_row)))
    depths = {line.split(" = ")[1]: line.index("v") for line in lines if " = " in line}
    found = {text.split("(")[0] + text[-2:]: depth for text, depth in depths.items()}
    assert [depths["load_f32(buffer3, 0)"], depths["load_f32(buffer2, r)"]] == [0, 4]
    assert {found[key] for key in found if key.startswith(("exp_f32", "mul"))} == {4}
    assert {found[key] for key in found if key.startswith("add")} == {8}


def test_a_node_that_is_read_twice_is_evaluated_once() -> None:
    square = function("mul", ELEMENT, ELEMENT)
    lines = _lines(store(row(ROWS, COLUMNS), function("add", square, square)))
    assert sum("load_f32" in line for line in lines) == 1
    assert sum("mul(v" in line for line in lines) == 1


def test_all_is_read_before_anything_is_written() -> None:
    other = load(row(ROWS, COLUMNS), argument=2)
    lines = _lines(store(row(ROWS, COLUMNS), other), store(row(ROWS, COLUMNS), ELEMENT, 4))
    accesses = [word for line in lines for word in ("load_", "store_") if word in line]
    assert accesses == ["load_", "load_", "store_", "store_"]


def test_elements_that_nothing_changes_keep_their_bits() -> None:
    narrow = Load(0, BF16, row(ROWS, COLUMNS), 240)
    lines = _lines(Store(1, BF16, row(ROWS, COLUMNS), narrow))
    assert not any("f32_to_bf16" in line for line in lines)
    changed = _lines(Store(1, BF16, row(ROWS, COLUMNS), function("neg", narrow)))
    assert any("f32_to_bf16" in line for line in changed)


def test_a_guard_of_a_row_chooses_where_it_begins() -> None:
    def guarded(by: Load) -> list[str]:
        test = function("lt", by, Immediate.of("f32", 0))
        read = Load(0, F32, row(ROWS, COLUMNS), 240, test)
        return _lines(store(row(ROWS, COLUMNS), read))

    assert any(" = select(" in line for line in guarded(OF_ROW))
    own = guarded(load(row(ROWS, COLUMNS), argument=2))
    assert any("load_f32(buffer0, select(" in line for line in own)


def test_arguments_that_are_stored_to_are_written() -> None:
    stores = [store(row(ROWS, COLUMNS), ELEMENT)]
    assert _Nested(stores).usages() == {0: Usage.READ, 1: Usage.WRITE}
    assert _Nested(stores, {0}).usages() == {0: Usage.WRITE, 1: Usage.WRITE}


@pytest.mark.parametrize(("name", "text"), [(None, "k0"), ("to_f64", "to_f64(k0)")])
def test_a_conversion_that_is_none_changes_nothing(name: str | None, text: str) -> None:
    found = applied(name, Const(Type.F32, (0,)), "f64" if name else "f32")
    assert NumbaText().expression(found) == text

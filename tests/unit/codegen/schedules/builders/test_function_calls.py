"""Functions that are called where they are seldom computed or rows are short."""

from tests.processors import TARGET
from tests.unit.codegen.schedules.graphs import function, load, row, sum_of
from xla_server.codegen.schedules.builders.function_calls import FunctionCalls
from xla_server.codegen.trace.graph import Apply, Node
from xla_server.ir.analysis.affine import Variable, variable

TUNED = TARGET.tuning.loops
ROWS = Variable(100, "i")


def _name(asked: Apply, *nodes: Node) -> str:
    return FunctionCalls([asked, *nodes], [ROWS], TUNED).name_of(asked)


def test_a_function_is_called_where_another_value_is_computed_much_more_often() -> None:
    once_a_row = function("exp_f32", load(variable(ROWS)))
    often, less = (Variable(TUNED.seldom_factor + more, "j") for more in (0, -1))
    assert _name(once_a_row) == "exp_f32"
    assert _name(once_a_row, load(row(ROWS, often))) == "called_exp_f32"
    assert _name(once_a_row, load(row(ROWS, less))) == "exp_f32"


def test_functions_of_elements_of_summed_short_rows_are_called() -> None:
    fewest, most = TUNED.called_rows
    for size, is_called in ((fewest - 1, 0), (fewest, 1), (most, 1), (most + 1, 0)):
        loop = Variable(size, "k")
        element = function("exp_f32", load(row(ROWS, loop)))
        name = "called_exp_f32" if is_called else "exp_f32"
        assert _name(element, sum_of(element, loop)) == name


def test_short_rows_of_cheap_elements_call_nothing() -> None:
    loop = Variable(TUNED.called_rows[0], "k")
    total = sum_of(function("neg", load(row(ROWS, loop))), loop)
    assert _name(function("exp_f32", total), total) == "exp_f32"


def test_a_function_without_an_out_of_line_form_is_inlined() -> None:
    often = load(row(ROWS, Variable(1000, "j")))
    assert _name(function("neg", load(variable(ROWS))), often) == "neg"

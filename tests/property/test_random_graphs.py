"""Random programs: the cpu platform gives the interpreter's results."""

from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.sweep.draws.depth import drawn
from tests.property.random_programs.control import STEPS
from tests.property.random_programs.graphs import assert_alike, programs
from tests.unit.codegen.compiled import interpreted, on_cpu
from xla_server.ir.importer import import_module


@drawn(60, 4000)
@given(st.data())
def test_compiled_programs_give_the_interpreters_results(data: st.DataObject) -> None:
    program = data.draw(programs(STEPS))
    module = import_module(program.proto)
    ours, theirs = on_cpu(module, program.arguments), interpreted(module, program.arguments)
    for mine, other, error in zip(ours, theirs, program.errors, strict=True):
        assert_alike(mine, other, error)

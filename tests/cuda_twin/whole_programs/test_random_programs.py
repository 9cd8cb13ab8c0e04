"""Random programs lowered for a GPU: every nest has a kernel, with the interpreter's results."""

from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.sweep.draws.depth import drawn
from tests.cuda_twin.lowered import compiled, results_of
from tests.property.random_programs.control import STEPS
from tests.property.random_programs.graphs import assert_alike, programs
from tests.unit.codegen.compiled import interpreted
from xla_server.ir.importer import import_module


@drawn(30, 2000)
@given(st.data())
def test_programs_give_the_interpreters_results(data: st.DataObject) -> None:
    program = data.draw(programs(STEPS))
    module = import_module(program.proto)
    ours = results_of(module, compiled(module), program.arguments)
    theirs = interpreted(module, program.arguments)
    for mine, other, error in zip(ours, theirs, program.errors, strict=True):
        assert_alike(mine, other, error)

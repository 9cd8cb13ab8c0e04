import pytest

from tests.operations_page import page
from tests.operations_page.page import GROUPS, PATH, check_probes
from tests.operations_page.placing import Way, places_of
from tests.operations_page.probes import PROBES, Probe
from tests.operations_page.probing import KINDS, ProbeError, Runner, Subject, accepted
from xla_client import ops
from xla_contract.ops.definitions import DEFINITION
from xla_contract.types.opcode import Opcode
from xla_server.app.options.platform_names import Platform
from xla_server.app.options.settings import Settings
from xla_server.app.platforms import PLATFORMS

SAMPLE = (Opcode.ADD, Opcode.DOT, Opcode.REDUCE, Opcode.SORT, Opcode.SET_DIMENSION_SIZE)
"""Opcodes that are compiled for every element type here; `make operations` compiles all."""


PLACES = {
    Opcode.ADD: Way.KERNEL,
    Opcode.RESHAPE: Way.NOTHING,
    Opcode.INFEED: Way.HOST,
    Opcode.SET_DIMENSION_SIZE: Way.NOTHING,
    Opcode.BATCH_NORM_TRAINING: Way.KERNEL,
}


def test_the_page_says_what_the_programs_do():
    written = PATH.read_text(encoding="utf-8").splitlines()
    found = page.page([Platform.INTERPRETER]).splitlines()
    cpu = 2 + len(GROUPS) + list(PLATFORMS).index(Platform.CPU)
    assert len(written) == len(found), "run `make operations`"
    for said, is_so in zip(written, found, strict=True):
        left, right = (line.strip("| ").split(" | ") for line in (said, is_so))
        if right[cpu : cpu + 1] == ["?"]:
            left[cpu] = "?"
        assert left == right, "run `make operations`"


def test_the_page_says_what_is_compiled():
    written = PATH.read_text(encoding="utf-8").splitlines()
    runner = Runner(PLATFORMS[Platform.CPU](Settings(platform=Platform.CPU)))
    cpu = 2 + len(GROUPS) + list(PLATFORMS).index(Platform.CPU)
    for opcode in SAMPLE:
        (row,) = (line for line in written if line.startswith(f"| [`{opcode}`]"))
        found = accepted(opcode, PROBES[opcode].program, PROBES[opcode].before)
        refused = runner.refused(found.programs)
        assert (row.strip("| ").split(" | ")[cpu] == "all") == (not refused), opcode


def test_the_page_says_where_a_gpu_does_it():
    found = {opcode: accepted(opcode, PROBES[opcode].program) for opcode in PLACES}
    for opcode, place in PLACES.items():
        assert list(places_of(opcode, found[opcode].programs)) == [place], opcode


def test_a_platform_that_compiles_an_operation_compiles_it_for_a_gpu():
    for opcode, probe in PROBES.items():
        programs = accepted(opcode, probe.program, probe.before).programs
        assert Way.REFUSED not in places_of(opcode, programs), opcode


def test_every_kind_has_one_column():
    assert sorted(kind for kinds in GROUPS.values() for kind in kinds) == sorted(KINDS)


def test_an_opcode_without_probe_is_named():
    probes = {opcode: probe for opcode, probe in PROBES.items() if opcode is not Opcode.DOT}
    with pytest.raises(ProbeError, match=r"^dot has a definition and no probe: add its smallest"):
        check_probes(DEFINITION, probes)
    with pytest.raises(ProbeError, match=r"^shuffle has a probe and no definition"):
        check_probes([Opcode.ADD], {Opcode.ADD: PROBES[Opcode.ADD], Opcode.SHUFFLE: Probe("", _)})


def test_functions_named_on_the_page_are_there():
    for probe in PROBES.values():
        assert (
            not probe.function or hasattr(ops, probe.function) or hasattr(Subject, probe.function)
        )


def test_the_shape_rule_decides_what_is_accepted():
    found = accepted(Opcode.SHIFT_LEFT, PROBES[Opcode.SHIFT_LEFT].program)
    kinds = {program.kind for program in found.programs}
    assert kinds == {kind for kind in KINDS if kind.is_integer}
    assert not accepted(Opcode.REPLICA_ID, PROBES[Opcode.REPLICA_ID].program).is_typed


def test_a_probe_must_hold_its_operation_and_fail_nowhere_else():
    with pytest.raises(ProbeError, match="the probe of add must hold it"):
        accepted(Opcode.ADD, lambda p: ops.copy(p.main(2)))
    with pytest.raises(ProbeError, match="must fail at add or nowhere, got for pred: negate"):
        accepted(Opcode.ADD, lambda p: ops.add(ops.neg(p.main(2)), p.main(2)))


def test_a_program_that_a_platform_refuses_does_not_run_there():
    runner = Runner(PLATFORMS[Platform.INTERPRETER](Settings()))

    def program(p: Subject):
        return ops.custom_call([p.main(2)], "no_such_target", p.shape(2))

    found = accepted(Opcode.CUSTOM_CALL, program)
    assert runner.refused(found.programs) == list(KINDS)

    def narrow(p: Subject):
        target = "Sharding" if p.kind.is_complex else "no_such_target"
        return ops.custom_call([p.main(2)], target, p.shape(2))

    found = accepted(Opcode.CUSTOM_CALL, narrow)
    assert runner.refused(found.programs) == [kind for kind in KINDS if not kind.is_complex]
    fine = accepted(Opcode.ADD, PROBES[Opcode.ADD].program)
    assert runner.refused(fine.programs) == []


def _(p: Subject):
    return p.main(2)

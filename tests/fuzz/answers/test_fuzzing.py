"""The fuzzer of answers: a fixed slice, and that it finds, shrinks and prints what is wrong."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.fuzz.answers.checking import Reference
from tests.fuzz.answers.fuzzing import Counts, fuzz
from tests.fuzz.answers.shrinking.shrinking import shrunk
from tests.fuzz.answers.sides import Side, SideError
from tests.fuzz.answers.steps import fused
from tests.fuzz.answers.steps.catalogue import PROBED_TYPES, STEPS, UNMIXED, UNPROBED, case
from tests.fuzz.answers.steps.fused import MAX_RESULTS
from tests.fuzz.answers.steps.graph import Case, entry_of, graph_case
from tests.operations_page.probes import PROBES
from xla_contract.ops.definitions import UNDEFINED
from xla_contract.ops.elementwise.elementwise import BINARY, UNARY
from xla_contract.stubs import hlo_pb2
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode

FIRST, SLICE = 2000, 10
"""The first seed of the slice, and the modules of each half of it: about 10 seconds each."""


@pytest.fixture(scope="module")
def sides() -> Iterator[list[Side]]:
    found = [Side("cpu"), Side("jaxlib")]
    yield found
    for side in found:
        side.close()


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.timeout(600)
def test_a_slice_has_one_answer_each(half: int, sides: list[Side]) -> None:
    counts, first = Counts(), FIRST + half * SLICE
    found = list(fuzz(range(first, first + SLICE), sides, counts))
    assert not found, "\n\n".join(found)
    assert counts.modules == SLICE
    assert counts.unanswered["cpu"] == 0
    assert counts.unanswered["jaxlib"] < SLICE / 2


def test_every_opcode_is_drawn() -> None:
    # Those of probes are drawn from their table; graphs mix all but those that are named.
    assert {*PROBES} == {*Opcode} - {*UNDEFINED}
    assert {*PROBES} > {*UNMIXED} | {*UNPROBED}
    # The steps of elementwise operations draw from the tables of these.
    mixed = {str(opcode) for opcode in (*UNARY, *BINARY)}
    for seed in range(250):
        for computation in graph_case(seed, STEPS).proto.computations:
            mixed |= {instruction.opcode for instruction in computation.instructions}
    assert mixed == {str(opcode) for opcode in PROBES} - {str(opcode) for opcode in UNMIXED}


def test_every_type_of_arrays_is_drawn() -> None:
    others = {E.INVALID, E.TUPLE, E.OPAQUE_TYPE, E.TOKEN, E.BUFFER}
    assert {*PROBED_TYPES} == {*E} - others


def test_a_seed_gives_the_same_module_again() -> None:
    first, second = case(5), case(5)
    assert first.proto == second.proto
    assert first.proto != case(6).proto
    for mine, other in zip(first.arguments, second.arguments, strict=True):
        np.testing.assert_array_equal(mine, other)


class Wrong:
    """A side that computes as the interpreter does, but for one operation: off by one."""

    name = "wrong"

    def __init__(self, opcode: str) -> None:
        self.opcode = opcode

    def run(self, proto: hlo_pb2.HloModuleProto, arguments: Sequence[Any]) -> list[Any]:
        reference = Reference(proto)
        results = reference.results(arguments)
        operands = reference.module.entry.root.operands
        for number, operand in enumerate(operands):
            if operand.opcode == self.opcode and results[number].size:
                results[number] = results[number].copy()
                results[number].reshape(-1)[-1] += 1
        return results


@functools.cache
def module_with(opcode: str) -> Case:
    """Return a module of the catalogue with such an instruction on integers in its entry."""
    for seed in range(1100, 3000):
        found = case(seed)
        entry = entry_of(found.proto)
        if len(entry.instructions) > 15 and any(
            one.opcode == opcode
            and one.shape.element_type in (4, 5)
            and one.shape.dimensions
            and all(one.shape.dimensions)
            for one in entry.instructions
        ):
            return found
    raise AssertionError(opcode)


def test_a_wrong_operation_is_found_alone_and_small() -> None:
    drawn, side = module_with("maximum"), Wrong("maximum")
    reference = Reference(drawn.proto)
    found = reference.differences("wrong", drawn.arguments, side.run(drawn.proto, drawn.arguments))
    assert {difference.opcode for difference in found} == {Opcode.MAXIMUM}
    small = shrunk(drawn, found[0], side)  # type: ignore[arg-type]
    opcodes = [one.opcode for one in entry_of(small.case.proto).instructions]
    assert opcodes == ["parameter", "parameter", "maximum", "tuple"]
    assert all(not np.any(argument.astype(bool)) for argument in small.case.arguments)


def test_a_report_has_the_module_the_arguments_and_all_answers() -> None:
    drawn = module_with("maximum")
    seed = int(drawn.origin.removeprefix("seed ").split(",")[0])
    counts = Counts()
    (text,) = fuzz([seed], [Wrong("maximum")], counts)  # type: ignore[list-item]
    for words in (
        f"seed {seed}",
        "maximum(%alone-parameter.0, %alone-parameter.1)",
        "argument 0 ",
        "interpreter: [0]",
        "wrong: [1]",
    ):
        assert words in text
    assert (counts.modules, counts.instructions) == (1, drawn.instruction_count)


def test_a_side_that_died_is_started_anew(sides: list[Side]) -> None:
    drawn = module_with("maximum")
    (cpu, _) = sides
    results = cpu.run(drawn.proto, drawn.arguments)
    cpu._process.kill()
    cpu._process.join()
    again = cpu.run(drawn.proto, drawn.arguments)
    assert len(again) == len(results)


def test_a_refusal_is_distinguished_from_a_death(sides: list[Side]) -> None:
    with pytest.raises(SideError, match="host_program_shape") as caught:
        sides[0].run(hlo_pb2.HloModuleProto(), [])
    assert caught.value.is_refusal


def test_a_side_that_does_not_answer_is_ended() -> None:
    drawn = module_with("maximum")
    side = Side("cpu", seconds=0.0)
    with pytest.raises(SideError, match="no answer within") as caught:
        side.run(drawn.proto, drawn.arguments)
    assert not caught.value.is_refusal


class WrongWithFew(Wrong):
    """The cpu platform, off by one where a module has few results."""

    name = "cpu"

    def run(self, proto: hlo_pb2.HloModuleProto, arguments: Sequence[Any]) -> list[Any]:
        if len(proto.host_program_shape.result.tuple_shapes) > MAX_RESULTS:
            return Reference(proto).results(arguments)
        return super().run(proto, arguments)


def test_results_that_others_being_left_out_changes_are_found() -> None:
    for seed in range(400):
        drawn = case(seed)
        reference = Reference(drawn.proto)
        if len(reference.module.entry.root.operands) <= MAX_RESULTS:
            continue
        results = reference.results(drawn.arguments)
        side: Any = WrongWithFew("")
        assert fused.difference(drawn, results, reference, side) == ""
        for part in reference.module.entry.root.operands:
            side = WrongWithFew(part.opcode)
            if words := fused.difference(drawn, results, reference, side):
                assert f"{drawn.origin}: cpu gives another value of %" in words
                assert "HloModule" in words
                return
    raise AssertionError

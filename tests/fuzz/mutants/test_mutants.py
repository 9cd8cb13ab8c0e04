"""The fuzzer of mutated modules: a fixed slice on both platforms, and what it reports."""

import random
from collections.abc import Iterator

import numpy as np
import pytest
from grpc import StatusCode

from tests.e2e.process import start_server
from tests.fuzz.answers.checking import Reference
from tests.fuzz.answers.steps.catalogue import case
from tests.fuzz.mutants import servers
from tests.fuzz.mutants.__main__ import platforms
from tests.fuzz.mutants.fuzzing import Counts, drawn, fuzz
from tests.fuzz.mutants.mutating import mutant, mutant_bytes
from tests.fuzz.mutants.servers import Answer, Mutated, ServerFaultError
from xla_contract.errors import XlaError
from xla_contract.stubs import hlo_pb2, xla_pb2

SLICE = 60


@pytest.fixture(scope="module")
def both() -> Iterator[list[Mutated]]:
    with platforms() as found:
        yield found


@pytest.mark.timeout(600)
def test_a_slice_harms_no_server_and_both_agree(both: list[Mutated]) -> None:
    counts = Counts()
    found = list(fuzz(range(SLICE), both, counts))
    assert not found, "\n\n".join(found)
    assert counts.mutants == SLICE
    assert counts.compared > SLICE / 20
    assert counts.by_code["INVALID_ARGUMENT"] > SLICE / 10


def test_mutants_differ_and_are_the_same_for_a_seed() -> None:
    base = case(3).proto
    found = [mutant(base, random.Random(seed)) for seed in range(20)]
    assert sum(changed != base for changed in found) > 10
    assert found[4] == mutant(base, random.Random(4))
    data = base.SerializeToString()
    changed = [mutant_bytes(data, random.Random(seed)) for seed in range(20)]
    assert sum(one != data for one in changed) > 10
    assert drawn(7).data == drawn(7).data


class Says:
    """A platform that answers every mutant alike."""

    def __init__(self, answer: Answer | ServerFaultError) -> None:
        self.answer = answer

    def run(self, data: bytes, arguments: object) -> Answer:
        if isinstance(self.answer, ServerFaultError):
            raise self.answer
        return self.answer


REFUSED = Answer("Compile", StatusCode.INVALID_ARGUMENT, "no")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer("done", StatusCode.OK), "cpu: Compile: INVALID_ARGUMENT no; interpreter: done: OK"),
        (Answer("Execute", StatusCode.UNIMPLEMENTED), "interpreter: Execute: UNIMPLEMENTED"),
        (ServerFaultError("interpreter: the process ended"), "the process ended"),
    ],
)
def test_what_platforms_disagree_about_is_reported(
    answer: Answer | ServerFaultError, words: str
) -> None:
    (text,) = fuzz([1], [Says(REFUSED), Says(answer)], Counts())  # type: ignore[list-item]
    assert words in text


@pytest.mark.parametrize("code", [StatusCode.RESOURCE_EXHAUSTED, StatusCode.DEADLINE_EXCEEDED])
def test_memory_and_time_are_each_platforms_own(code: StatusCode) -> None:
    pair = [Says(REFUSED), Says(Answer("Execute", code))]
    assert not list(fuzz([1], pair, Counts()))  # type: ignore[arg-type]


def test_a_wrong_result_is_reported() -> None:
    seed, reference = _compared()
    results = reference.results(drawn(seed).arguments)
    right = Says(Answer("done", StatusCode.OK, "", tuple(results)))
    counts = Counts()
    assert not list(fuzz([seed], [right, right], counts))  # type: ignore[list-item]
    assert counts.compared == 1
    results[0] = results[0] + np.ones((), results[0].dtype)
    wrong = Says(Answer("done", StatusCode.OK, "", tuple(results)))
    (text,) = fuzz([seed], [wrong, right], counts)  # type: ignore[list-item]
    assert f"seed {seed}: %" in text


def _compared() -> tuple[int, Reference]:
    """The first mutant that runs and whose first result is an array of integers."""
    for seed in range(500):
        found = drawn(seed)
        try:
            assert found.proto is not None
            reference = Reference(found.proto)
            results = reference.results(found.arguments)
        except (AssertionError, XlaError):
            continue
        if reference.is_complete and results[0].size and results[0].dtype.kind == "i":
            return seed, reference
    raise AssertionError


def test_a_server_that_died_or_grew_is_a_fault(tmp_path, monkeypatch) -> None:
    data = xla_pb2.CompileRequest().SerializeToString()
    with start_server(tmp_path, "--platform", "interpreter") as server:
        one = Mutated("interpreter", server)
        assert one.run(data, []).code is StatusCode.INVALID_ARGUMENT
        with monkeypatch.context() as patch:
            patch.setattr(servers, "MAX_RESIDENT_BYTES", 1 << 20)
            with pytest.raises(ServerFaultError, match="bytes resident, at most 1048576"):
                one.run(data, [])
        server.process.kill()
        server.process.wait()
        with pytest.raises(ServerFaultError, match="interpreter: "):
            one.run(data, [])
        one.close()


def test_empty_lists_of_any_type_get_elements() -> None:
    base = hlo_pb2.HloModuleProto(name="m")
    base.host_program_shape.result.element_type = 11
    found = [mutant(base, random.Random(seed)).host_program_shape for seed in range(2000)]
    assert any(shape.parameter_names for shape in found)
    assert any(shape.parameters for shape in found)

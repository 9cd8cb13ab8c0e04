"""Programs in other forms, and servers that have no rpc for them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.unit.client.small_programs import ONES, double
from xla_client.programs.computation import as_computation
from xla_contract.errors import InvalidArgumentError, UnimplementedError, XlaError


class Lowered:
    """An object with the one method of jax.stages.Lowered that matters here."""

    def compiler_ir(self, dialect: str) -> Any:
        assert dialect == "hlo"
        return self

    def as_serialized_hlo_module_proto(self) -> bytes:
        return double().to_bytes()


def test_objects_are_known_by_what_they_can_do() -> None:
    expected = double().to_bytes()
    for program in (double(), double().proto, expected, bytearray(expected), Lowered()):
        assert as_computation(program).to_bytes() == expected
    assert xc.Computation.from_any(Lowered()).name == double().name


@pytest.mark.parametrize("program", [None, 3, 1.5, object(), ["HloModule"]])
def test_other_objects_are_no_programs(program: Any) -> None:
    with pytest.raises(TypeError, match=r"^computation must be a Computation, "):
        as_computation(program)


@pytest.mark.parametrize("program", [Path("model.hlo"), "model.hlo", "a/model.pb"])
def test_a_file_s_name_is_no_program(program: Any) -> None:
    with pytest.raises(XlaError, match=r"must be(gin with)? .*model") as caught:
        as_computation(program)
    assert "path.read_text()" in caught.value.hint


def test_text_needs_a_server_that_reads_it(plain_client: xc.Client) -> None:
    text = "HloModule m"
    with pytest.raises(InvalidArgumentError, match="a client is needed, got none"):
        as_computation(text)
    with pytest.raises(UnimplementedError, match="CAPABILITY_MODULES"):
        plain_client.compile(text)
    with pytest.raises(UnimplementedError, match="CAPABILITY_MODULES"):
        double().to_text(plain_client)


def test_a_server_without_analysis_cannot_be_asked(plain_client: xc.Client) -> None:
    run = plain_client.compile(Lowered())
    np.testing.assert_array_equal(run.run(ONES), 2 * ONES)
    for ask in (run.cost_analysis, run.memory_analysis, run.explain):
        with pytest.raises(UnimplementedError, match="CAPABILITY_ANALYSIS"):
            ask()

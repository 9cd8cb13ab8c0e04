"""Every opcode of XLA, and on which floors it stands."""

import json
from pathlib import Path

import jax
import pytest

from tests.operations_page.probes import PROBES
from tests.unit.client.ops.test_ops import NOT_WRITTEN_BY_PROGRAMS, WRITTEN
from tests.unit.ops.constraints.tables import CASES
from xla_contract.errors import UnimplementedError
from xla_contract.ops.definitions import DEFINITION, UNDEFINED, definition
from xla_contract.types.opcode import Opcode
from xla_server.ops.evaluators import EVALUATORS, NOT_EVALUATED

TABLE = json.loads((Path(__file__).parents[2] / "data" / "opcodes.json").read_text())

EXCEPTIONS = {
    Opcode.SHUFFLE: (
        "An opcode of XLA's newest header, where a pass rewrites rotations and permutations given "
        "as attributes into slices and gathers. HloInstructionProto has no published fields for "
        "them, and jaxlib 0.10.2 answers INVALID_ARGUMENT: Unknown opcode."
    ),
}
"""Opcodes without a definition here, with XLA's own status of them."""

STRUCTURAL = {
    Opcode.CUSTOM_CALL: "its evaluators are the functions in the registry of custom calls",
    Opcode.PARAMETER: "a run binds it to an argument",
}
"""Opcodes that need no evaluator."""

DEFINED = sorted(set(Opcode) - set(EXCEPTIONS))

BROKEN = frozenset(case.opcode for case in CASES)
"""Opcodes with a program that breaks a rule of theirs; test_constraints.py runs all of them."""


def test_the_opcodes_and_arities_are_xla_s() -> None:
    assert {str(opcode): opcode.arity for opcode in Opcode} == TABLE["arity"]
    assert set(TABLE["unknown_to_jaxlib"]) <= set(TABLE["arity"])


def test_the_exceptions_are_what_is_undefined_and_say_xla_s_status() -> None:
    assert set(EXCEPTIONS) == set(UNDEFINED)
    for opcode, status in EXCEPTIONS.items():
        assert len(status.split()) > 10
        with pytest.raises(UnimplementedError, match=f"got opcode {opcode}$"):
            definition(opcode)


def test_an_opcode_that_jaxlib_does_not_know_is_unknown_to_it() -> None:
    from jax._src.lib import xla_client

    # The text breaks off behind the opcode; at a tuple's jaxlib aborts.
    for opcode in set(TABLE["arity"]) - {"tuple"}:
        with pytest.raises(jax.errors.JaxRuntimeError) as caught:
            xla_client.hlo.hlo_module_from_text(
                f"HloModule m\nENTRY e {{\n ROOT r = f32[] {opcode}"
            )
        unknown = f"Unknown opcode: {opcode}" in str(caught.value)
        assert unknown == (opcode in TABLE["unknown_to_jaxlib"])


@pytest.mark.parametrize("opcode", DEFINED)
def test_an_opcode_has_a_shape_rule_an_evaluator_a_builder_function_and_tests(
    opcode: Opcode,
) -> None:
    assert DEFINITION[opcode].opcode is opcode
    assert (opcode in EVALUATORS) != (opcode in STRUCTURAL)
    assert (opcode in WRITTEN) != (opcode in NOT_WRITTEN_BY_PROGRAMS)
    assert opcode in PROBES, "test_page.py evaluates its smallest program"
    assert (opcode in BROKEN) != (opcode is Opcode.TUPLE), "a tuple takes any operands"


def test_what_is_structural_says_so_in_the_registry_too() -> None:
    assert set(STRUCTURAL) | set(EXCEPTIONS) == set(NOT_EVALUATED)

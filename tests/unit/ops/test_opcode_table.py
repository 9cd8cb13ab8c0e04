"""Every opcode of XLA, and on which floors it stands."""

import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest

import xla_contract.ops
from tests.unit.client.test_ops import (
    FIRST_HALVES,
    NOT_WRITTEN_BY_PROGRAMS,
    OPCODE,
    SOURCE_OPCODE,
)
from xla_contract.errors import UnimplementedError
from xla_contract.ops.definition import OpDefinition
from xla_contract.ops.registry import DEFINITION, UNDEFINED, definition
from xla_contract.types.opcode import Opcode
from xla_server.ops.registry import EVALUATORS, NOT_EVALUATED

UNIT_TESTS = Path(__file__).parent
TABLE = json.loads((UNIT_TESTS.parents[1] / "data" / "opcodes.json").read_text())

EXCEPTIONS = {
    Opcode.SHUFFLE: (
        "An opcode of XLA's newest header, where a pass rewrites rotations and permutations given "
        "as attributes into slices and gathers. HloInstructionProto has no published fields for "
        "them, and jaxlib 0.10.2 answers INVALID_ARGUMENT: Unknown opcode."
    ),
}
"""What has no meaning here, with XLA's own status of it."""

STRUCTURAL = {
    Opcode.CUSTOM_CALL: "its evaluators are the functions in the registry of custom calls",
    Opcode.PARAMETER: "a run binds it to an argument",
}
"""What needs no evaluator."""

DEFINED = sorted(set(Opcode) - set(EXCEPTIONS))

TESTED_WITH = {
    "call": "control_flow",
    "cholesky": "random_and_linear",
    "conditional": "control_flow",
    "fft": "random_and_linear",
    "fusion": "control_flow",
    "gather": "gather_scatter",
    "map": "control_flow",
    "rng": "random_and_linear",
    "scatter": "gather_scatter",
    "topk": "random_and_linear",
    "triangular_solve": "random_and_linear",
    "while_loop": "control_flow",
}
"""The stem of the unit tests where it is not the operation's own."""

IN_ONE_TABLE = {"elementwise"}
"""Stems whose unit tests run through the whole table and name few of its opcodes."""


def _stems() -> dict[Opcode, str]:
    """The file stem of every opcode's definition."""
    found: dict[Opcode, str] = {}
    for module in pkgutil.walk_packages(xla_contract.ops.__path__, "xla_contract.ops."):
        contents = vars(importlib.import_module(module.name))
        definitions = contents.get("DEFINITIONS", contents.get("DEFINITION"))
        if isinstance(definitions, OpDefinition):
            definitions = (definitions,)
        if isinstance(definitions, tuple):
            stem = module.name.rpartition(".")[2]
            found |= dict.fromkeys((each.opcode for each in definitions), stem)
    return found


def _tests_of(stem: str) -> Path | None:
    """The unit tests of the rule and the evaluator of this file stem, if it has a file of tests."""
    return next(UNIT_TESTS.rglob(f"test_{stem}.py"), None)


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
    import jax
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
    written = {*OPCODE.values(), *SOURCE_OPCODE.values(), *FIRST_HALVES}
    assert (opcode in written) != (opcode in NOT_WRITTEN_BY_PROGRAMS)
    stem = _stems()[opcode]
    path = _tests_of(TESTED_WITH.get(stem, stem))
    assert path
    tests = path.read_text()
    named = re.search(rf"Opcode\.{opcode.name}\b|(?<![\w-]){opcode}(?![\w-])", tests)
    assert named or stem in IN_ONE_TABLE or re.search(rf"ops(\.\w+)*\.{stem} ", tests)


def test_what_is_structural_says_so_in_the_registry_too() -> None:
    assert set(STRUCTURAL) | set(EXCEPTIONS) == set(NOT_EVALUATED)


def test_the_table_of_shared_tests_has_no_row_too_many() -> None:
    stems = set(_stems().values())
    for stem, shared in TESTED_WITH.items():
        assert stem in stems
        assert not _tests_of(stem)
        assert _tests_of(shared)

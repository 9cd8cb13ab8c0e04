"""The rows of elementwise operations beside the functions that kernels have."""

import importlib
import pkgutil

import pytest

from tests.processors import HOST
from xla_contract.ops.elementwise.elementwise import ELEMENTWISE as RULES
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.codegen.functions import bits, complex, real
from xla_server.codegen.functions.table import FUNCTIONS
from xla_server.codegen.kernel_ir.analysis.counts import cost_of
from xla_server.codegen.namespace import vocabulary
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ops.elementwise.elementwise_table import ROWS


def named(opcode: Opcode, kind: ElementType) -> str:
    row = ROWS[opcode]
    computed = "c128" if row.widens_to_c128(kind) else KERNEL_TYPE[kind].computed
    return row.kernel_function(kind, computed)


@pytest.mark.parametrize("opcode", sorted(RULES))
def test_every_type_of_an_operation_has_a_kernel_function_of_the_row_s_cost(opcode: Opcode) -> None:
    row = ROWS[opcode]
    for kind in RULES[opcode].types.members:
        name = named(opcode, kind)
        assert name in vocabulary(HOST).names, kind
        if name != row.pred:
            assert cost_of(name) == row.cost, kind


def test_names_of_kernel_functions() -> None:
    assert named(Opcode.ADD, ElementType.PRED) == "bit_or"
    assert named(Opcode.ADD, ElementType.C64) == "add_c64"
    assert named(Opcode.TANH, ElementType.BF16) == "tanh_f32"
    assert named(Opcode.TANH, ElementType.C64) == "tanh_c128"
    assert named(Opcode.POPCNT, ElementType.S4) == "popcnt_s4"
    assert named(Opcode.POPCNT, ElementType.S8) == "popcnt"


def test_the_table_has_every_module_of_formulas() -> None:
    for package in (bits, complex, real):
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            formulas = getattr(importlib.import_module(found.name), "FORMULAS", {})
            assert formulas.keys() <= FUNCTIONS.keys(), found.name

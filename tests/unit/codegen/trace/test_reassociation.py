"""Functions that combine elements in any order, and what is recorded of them."""

import pytest

from tests.processors import HOST
from xla_contract.types.opcode import Opcode
from xla_server.codegen.instructions.intrinsics import REASSOCIATED
from xla_server.codegen.namespace import vocabulary
from xla_server.codegen.trace.reductions import free_order


@pytest.mark.parametrize("kind", ["f32", "f64", "c64", "c128"])
@pytest.mark.parametrize("opcode", [Opcode.ADD, Opcode.MULTIPLY])
def test_functions_of_any_order_name_those_in_order(opcode: Opcode, kind: str) -> None:
    free = free_order(opcode, kind)
    assert (free is None) == (opcode is Opcode.MULTIPLY and kind[0] == "c")
    if free is not None:
        names = vocabulary(HOST).names
        assert free.function in REASSOCIATED
        assert free.ordered in names.keys() - REASSOCIATED.keys()
        assert free.neutral.type == kind

"""The union of all tables of rules."""

from xla_server.codegen.trace.bits import BIT_RULES
from xla_server.codegen.trace.calls import CALL_RULES
from xla_server.codegen.trace.convolution import CONVOLUTION_RULES
from xla_server.codegen.trace.dot import DOT_RULES
from xla_server.codegen.trace.elementwise import ELEMENTWISE_RULES
from xla_server.codegen.trace.movement import MOVEMENT_RULES
from xla_server.codegen.trace.reductions import REDUCTION_RULES
from xla_server.codegen.trace.rules import RULES

TABLES = (
    *(BIT_RULES, CALL_RULES, CONVOLUTION_RULES, DOT_RULES),
    *(ELEMENTWISE_RULES, REDUCTION_RULES, MOVEMENT_RULES),
)


def test_no_operation_has_two_rules() -> None:
    assert sum(map(len, TABLES)) == len(RULES)
    assert all(RULES[opcode] is rule for table in TABLES for opcode, rule in table.items())

"""The table of rules."""

from xla_contract.types.opcode import Opcode
from xla_server.codegen.trace.elementwise import trace_elementwise
from xla_server.codegen.trace.movement import trace_mapped
from xla_server.codegen.trace.rules import RULES
from xla_server.ir.analysis.index_maps import MAPPED
from xla_server.ops.elementwise.elementwise_table import ROWS


def test_no_row_hides_the_rule_of_a_whole_group() -> None:
    assert not ROWS.keys() & set(MAPPED)
    assert all(RULES[opcode] is trace_elementwise for opcode in ROWS)
    assert all(RULES[opcode] is trace_mapped for opcode in MAPPED)


def test_every_other_rule_is_the_rule_of_one_operation() -> None:
    others = [RULES[opcode] for opcode in Opcode if opcode in RULES.keys() - ROWS.keys() - MAPPED]
    assert len(others) == len(set(others))

"""Every operation that kernels are traced through, by opcode."""

from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.types.opcode import Opcode
from xla_server.codegen.trace.bits import BIT_RULES
from xla_server.codegen.trace.calls import CALL_RULES
from xla_server.codegen.trace.convolution import CONVOLUTION_RULES
from xla_server.codegen.trace.dot import DOT_RULES
from xla_server.codegen.trace.elementwise import ELEMENTWISE_RULES
from xla_server.codegen.trace.movement import MOVEMENT_RULES
from xla_server.codegen.trace.reductions import REDUCTION_RULES
from xla_server.codegen.trace.tracer import Rule

RULES: Mapping[Opcode, Rule] = MappingProxyType(
    {
        **ELEMENTWISE_RULES,
        **BIT_RULES,
        **MOVEMENT_RULES,
        **REDUCTION_RULES,
        **CALL_RULES,
        **DOT_RULES,
        **CONVOLUTION_RULES,
    }
)
"""The rule of each opcode that a loop nest can compute an element of."""

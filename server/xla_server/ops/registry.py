"""What evaluates each opcode, or why nothing does."""

from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.errors import UnimplementedError
from xla_contract.opcode import Opcode
from xla_contract.ops.registry import UNDEFINED
from xla_server.ops.communication import COMMUNICATION
from xla_server.ops.compound import COMPOUND
from xla_server.ops.elementary import ELEMENTARY
from xla_server.ops.evaluation import Evaluator

EVALUATORS: Mapping[Opcode, Evaluator] = MappingProxyType(
    {**ELEMENTARY, **COMPOUND, **COMMUNICATION}
)
"""The evaluator of each opcode that has one."""

NOT_EVALUATED: Mapping[Opcode, str] = MappingProxyType(
    {
        **UNDEFINED,
        Opcode.CUSTOM_CALL: "a plan takes the evaluator from the registry of custom calls",
        Opcode.PARAMETER: "a run binds its parameters to the arguments by itself",
    }
)
"""Why each remaining opcode has no evaluator. With EVALUATORS it covers every opcode once."""


def evaluator(opcode: Opcode) -> Evaluator:
    """The evaluator of `opcode`; raises UnimplementedError saying why there is none."""
    found = EVALUATORS.get(opcode)
    if found is None:
        raise UnimplementedError(f"{NOT_EVALUATED[opcode]}, got opcode {opcode}")
    return found

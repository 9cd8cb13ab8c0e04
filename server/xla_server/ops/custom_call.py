"""custom-call: no function outside HLO is known here.

Semantics: XLA's CustomCall with an empty registry of targets.
"""

from collections.abc import Sequence

from xla_contract.errors import UnimplementedError
from xla_contract.ops.custom_call import CustomCallAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value


def evaluate_custom_call(
    instruction: HloInstruction, operands: Sequence[Value], frame: Frame
) -> Value:
    """Raise UnimplementedError with the target's name."""
    attributes: CustomCallAttributes = instruction.attributes
    raise UnimplementedError(f'target "{attributes.target}" is not known to this server')

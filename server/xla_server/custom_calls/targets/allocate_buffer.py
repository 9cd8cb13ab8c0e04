"""AllocateBuffer: the target that `jax.lax.empty` is lowered to for accelerators.

Semantics: XLA leaves the elements unspecified. Here they are zeros, as memory may hold what other
sessions left there.
"""

from collections.abc import Sequence

from xla_server.custom_calls.target import CustomCallTarget, require_no_operands, static_operands
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value, zeros


def check(instruction: HloInstruction) -> None:
    """No operands, and a result of one size."""
    require_no_operands(instruction)
    static_operands(instruction)


def evaluate(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Zeros of the declared shape."""
    return zeros(instruction.shape)


TARGET = CustomCallTarget("AllocateBuffer", evaluate, check)

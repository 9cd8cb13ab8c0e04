"""Markers that tell a compiler about partitioning and placement, and change no value.

On one device with one memory they are the identity.
"""

from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_server.custom_calls.target import CustomCallTarget
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Frame, Value

NAMES = (
    "LayoutConstraint",
    "MoveToDevice",
    "MoveToHost",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "ShardBarrierFrom",
    "ShardBarrierTo",
    "Sharding",
    "annotate_device_placement",
    "xla.sdy.FuncResultSharding",
    "xla.sdy.GlobalToLocalShape",
    "xla.sdy.LocalToGlobalShape",
)


def check_marker(instruction: HloInstruction) -> None:
    """One operand, and a result of its shape: with one partition a shard is the whole."""
    if len(instruction.operands) != 1:
        raise ShapeError(f"the target takes one value, got {len(instruction.operands)}")
    whole = instruction.operands[0].shape.without_layout()
    if not instruction.shape.compatible(whole):
        raise ShapeError(
            "the declared shape must be that of the operand where there is one partition, got "
            f"{instruction.shape.without_layout()} declared and {whole} given",
            hint="Compile the program for all of its partitions: num_partitions, or a mesh.",
        )


def evaluate_marker(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """The operand."""
    return operands[0]


TARGETS = tuple(CustomCallTarget(name, evaluate_marker, check_marker) for name in NAMES)

"""Lowering of instructions that only Python can execute: an evaluator runs on their arrays.

- Infeed, outfeed, send and recv wait for other parties at queues and channels.
- rng-get-and-update-state advances a state that outlives the execution, and RandomState, to which
  rng is expanded, draws one from the execution's source: sixteen bytes each.
- Custom calls of an operator's targets are Python functions, or C functions of arrays.
- Collectives over replicas that do not exist are refused by their evaluators.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xla_contract.errors import XlaError
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers.code import HostThunk
from xla_server.codegen.lower.lapack import LAPACK_CALLS, lower_lapack
from xla_server.codegen.lower.lowering import Lowering, Tree, leaves
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import TOKEN, Evaluator
from xla_server.ops.registry import EVALUATORS
from xla_server.ops.send_recv import require_evaluated

HOST_OPCODES = frozenset(
    {
        Opcode.ALL_GATHER,
        Opcode.ALL_GATHER_DONE,
        Opcode.ALL_GATHER_START,
        Opcode.ALL_REDUCE,
        Opcode.ALL_REDUCE_DONE,
        Opcode.ALL_REDUCE_START,
        Opcode.ALL_TO_ALL,
        Opcode.COLLECTIVE_BROADCAST,
        Opcode.COLLECTIVE_PERMUTE,
        Opcode.COLLECTIVE_PERMUTE_DONE,
        Opcode.COLLECTIVE_PERMUTE_START,
        Opcode.COLLECTIVE_REDUCE,
        Opcode.INFEED,
        Opcode.OUTFEED,
        Opcode.RECV,
        Opcode.RECV_DONE,
        Opcode.RAGGED_ALL_TO_ALL,
        Opcode.REDUCE_SCATTER,
        Opcode.RNG_GET_AND_UPDATE_STATE,
        Opcode.SEND,
        Opcode.SEND_DONE,
    }
)
"""Operations that belong to the host: they wait for other parties, or keep state between runs.

The remaining collectives name replicas that do not exist: their evaluators refuse them."""


def lower_host(lowering: Lowering, i: HloInstruction) -> Tree:
    """One row that evaluates the instruction."""
    if i.opcode in (Opcode.SEND, Opcode.RECV):
        require_evaluated(i)
    return lower_evaluator(lowering, i, EVALUATORS[i.opcode])


def lower_custom_call(lowering: Lowering, i: HloInstruction) -> Tree:
    """LAPACK's kernels, or one row that calls the target that was registered."""
    target = lowering.custom_calls.resolve(i)
    if i.attributes.target in LAPACK_CALLS:
        return lower_lapack(lowering, i)
    return lower_evaluator(lowering, i, target.evaluate)


def lower_evaluator(lowering: Lowering, i: HloInstruction, evaluate: Evaluator) -> Tree:
    """One row that runs an evaluator on the operands' arrays."""
    result = lowering.fresh(i.shape, i.name)
    operands = [lowering.of(operand) for operand in i.operands]
    shapes = [operand.shape for operand in i.operands]

    def call(run: Any, arrays: Sequence[Any]) -> list[Any]:
        given = iter(arrays)
        values = [_value(shape, given) for shape in shapes]
        try:
            with np.errstate(all="ignore"):
                return list(_arrays(evaluate(i, values, run)))
        except XlaError as error:
            if run.cancellation.is_cancelled:
                # Where the run was when it was stopped is not what was wrong.
                raise
            raise error.at(i.opcode, i.name) from error.__cause__

    reads = tuple(value for tree in operands for value in leaves(tree))
    lowering.add(HostThunk(i.name, call, reads, tuple(leaves(result))))
    return result


def _value(shape: Shape, arrays: Iterator[Any]) -> Any:
    if shape.is_tuple:
        return tuple(_value(part, arrays) for part in shape.tuple_shapes)
    # A reshape has the array of its operand.
    return next(arrays).reshape(shape.dimensions) if shape.is_array else TOKEN


def _arrays(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple):
        for part in value:
            yield from _arrays(part)
    elif isinstance(value, np.ndarray):
        yield value

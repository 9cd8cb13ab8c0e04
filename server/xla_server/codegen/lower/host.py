"""Lowering of instructions that only Python can execute: an evaluator runs on their arrays.

- Infeed, outfeed, send and recv wait for other parties at queues and channels.
- rng-get-and-update-state advances a state that outlives the execution, and RandomState, to which
  rng is expanded, draws one from the execution's source: sixteen bytes each.
- Custom calls of an operator's targets are Python functions, or C functions of arrays.
- Collectives wait for other participants of the grid, and write their results into each other's
  memory (ops/collectives/collective.py).
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from xla_contract.errors import XlaError
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers.code import HostThunk
from xla_server.codegen.lower.linear_algebra.lapack import LAPACK_CALLS, lower_lapack
from xla_server.codegen.lower.linear_algebra.sparse_product import lower_sparse_product
from xla_server.codegen.lower.lowering import Lowering, Tree, leaves
from xla_server.custom_calls.targets import sparse_product
from xla_server.ir import traversal
from xla_server.ir.module import HloInstruction
from xla_server.ops.collectives.collective import exchanged
from xla_server.ops.collectives.exchanges import EXCHANGES
from xla_server.ops.evaluation import TOKEN, Evaluator
from xla_server.ops.evaluators import EVALUATORS

HOST_OPCODES = frozenset(
    {
        Opcode.INFEED,
        Opcode.OUTFEED,
        Opcode.RECV,
        Opcode.RECV_DONE,
        Opcode.RNG_GET_AND_UPDATE_STATE,
        Opcode.SEND,
        Opcode.SEND_DONE,
    }
)
"""Operations of the host: they wait for other parties, or keep state between runs."""

NUMBERS = frozenset({Opcode.PARTITION_ID, Opcode.REPLICA_ID})
"""Operations that return the replica or partition id of the running participant."""


def lower_host(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add one thunk that evaluates the instruction."""
    return lower_evaluator(lowering, i, EVALUATORS[i.opcode])


def lower_collective(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add one thunk that meets the other participants."""
    exchange = EXCHANGES[i.opcode]
    shapes = [operand.shape.dimensions for operand in i.operands]
    results = [part.dimensions for part in i.shape.leaves()]

    def call(run: Any, arrays: Sequence[Any], targets: Sequence[Any]) -> None:
        # Other participants read the operands until all have made their results.
        share = np.may_share_memory
        own = [each.copy() if any(share(each, to) for to in targets) else each for each in arrays]
        operands = [array.reshape(shape) for array, shape in zip(own, shapes, strict=True)]
        into = [array.reshape(shape) for array, shape in zip(targets, results, strict=True)]
        with placed(run, i):
            made = exchanged(exchange, i, operands, run, into)
        for target, array in zip(into, made, strict=True):
            if array is not target:
                target[...] = array

    return _add(lowering, i, call, fills=True)


def _add(
    lowering: Lowering, i: HloInstruction, call: Callable[..., Any], *, fills: bool = False
) -> Tree:
    """Add the thunk that calls a function with the operands' arrays; return its results."""
    result = lowering.new_tree(i.shape, i.name)
    reads = tuple(value for operand in i.operands for value in leaves(lowering.of(operand)))
    lowering.add(HostThunk(i.name, call, reads, tuple(leaves(result)), fills=fills))
    return result


def lower_custom_call(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add kernels of linear algebra, or one thunk that calls the registered target."""
    target = lowering.custom_calls.resolve(i)
    if i.attributes.target in LAPACK_CALLS:
        return lower_lapack(lowering, i)
    if i.attributes.target == sparse_product.TARGET.name:
        return lower_sparse_product(lowering, i)
    return lower_evaluator(lowering, i, target.evaluate)


def lower_evaluator(lowering: Lowering, i: HloInstruction, evaluate: Evaluator) -> Tree:
    """Add one thunk that runs an evaluator on the operands' arrays."""
    shapes = [operand.shape for operand in i.operands]

    def call(run: Any, arrays: Sequence[Any]) -> list[Any]:
        remaining = iter(arrays)
        values = [_value(shape, remaining) for shape in shapes]
        with placed(run, i), np.errstate(all="ignore"):
            found = traversal.leaves(evaluate(i, values, run))
            return [each for each in found if isinstance(each, np.ndarray)]

    return _add(lowering, i, call)


@contextlib.contextmanager
def placed(run: Any, i: HloInstruction) -> Iterator[None]:
    """Add the instruction to errors of the block."""
    try:
        yield
    except XlaError as error:
        if run.options.cancellation.is_cancelled:
            # A cancellation is no error of the instruction at which it was noticed.
            raise
        raise error.at(i.opcode, i.name) from error.__cause__


def _value(shape: Shape, arrays: Iterator[Any]) -> Any:
    if shape.is_tuple:
        return tuple(_value(part, arrays) for part in shape.tuple_shapes)
    # A reshape shares the array of its operand.
    return next(arrays).reshape(shape.dimensions) if shape.is_array else TOKEN

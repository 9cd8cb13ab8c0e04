"""A digest of a program's content."""

import hashlib

import numpy as np

from xla_contract.ops.definitions import definition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape
from xla_contract.wire.shape_proto import shape_to_proto
from xla_server.ir.analysis.participants import transfer_pairs
from xla_server.ir.checkpoints import checkpoint
from xla_server.ir.module import HloComputation, HloModule


def fingerprint(module: HloModule, entry: ProgramShape) -> bytes:
    """Return a digest of what `module` computes with the layouts of `entry`.

    Names, ids and decoration do not count, except for the source and target pairs of transfers; the
    order of instructions and the grid do.
    """
    digest = hashlib.blake2b(digest_size=32)
    computations = {part: number for number, part in enumerate(module.computations)}
    grid = module.grid
    _add(digest, b"%d %d %d" % (computations[module.entry], grid.replicas, grid.partitions))
    for shape in (*entry.parameters, entry.result):
        _add(digest, str(shape).encode())
    for computation in module.computations:
        _add_computation(digest, computation, computations)
    return digest.digest()


def _add_computation(
    digest: "hashlib.blake2b", computation: HloComputation, computations: dict[HloComputation, int]
) -> None:
    numbers = {part: number for number, part in enumerate(computation.instructions)}
    _add(digest, b"%d %d" % (len(numbers), numbers[computation.root]))
    for instruction in computation.instructions:
        checkpoint()
        proto = hlo_pb2.HloInstructionProto(
            opcode=str(instruction.opcode),
            shape=shape_to_proto(instruction.shape.without_layout()),
            operand_ids=[numbers[operand] for operand in instruction.operands],
            control_predecessor_ids=[numbers[part] for part in instruction.control_predecessors],
            called_computation_ids=[computations[called] for called in instruction.called],
        )
        if instruction.opcode is not Opcode.CONSTANT:
            definition(instruction.opcode).encode(instruction.attributes, proto)
        if instruction.opcode in (Opcode.SEND, Opcode.RECV, Opcode.RECV_DONE):
            _add(digest, str(transfer_pairs(instruction)).encode())
        _add(digest, proto.SerializeToString(deterministic=True))
        if instruction.opcode is Opcode.CONSTANT:
            # Its wire form would be another copy of what may be 100 MB.
            _add_literal(digest, instruction.attributes.literal)


def _add_literal(digest: "hashlib.blake2b", literal: Literal) -> None:
    if literal.shape.is_tuple:
        for element in literal.elements:
            _add_literal(digest, element)
    elif literal.shape.is_array:
        flat = np.ascontiguousarray(literal.value).reshape(-1)
        _add(digest, flat.view(np.uint8).data)
        _add(digest, np.asarray(literal.dynamic_sizes, np.int64).tobytes())


def _add(digest: "hashlib.blake2b", data: bytes | memoryview) -> None:
    # The length comes first, so that no two different sequences of parts give the same bytes.
    digest.update(len(data).to_bytes(8, "little"))
    digest.update(data)

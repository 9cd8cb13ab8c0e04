"""HloModule -> HloModuleProto, as XLA writes it today."""

from xla_contract.ops.definitions import definition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import program_shape_to_proto, shape_to_proto
from xla_server.ir.checkpoints import checkpoint
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.unmodelled_fields import copy_fields, present_fields


def export_module(module: HloModule) -> hlo_pb2.HloModuleProto:
    """The module in wire form; reading it back gives an equal module.

    An instruction's id on the wire has its computation's id as upper half. Arrays whose layout
    is not said are written without one, except constants: they get the literal's.
    """
    proto = hlo_pb2.HloModuleProto(
        name=module.name,
        id=module.id,
        entry_computation_name=module.entry.name,
        entry_computation_id=module.entry.id,
        host_program_shape=program_shape_to_proto(module.entry_program_shape),
    )
    fused = module.fused()
    for computation in module.computations:
        _write_computation(computation, proto.computations.add(), computation in fused)
    if module.decoration is not None:
        copy_fields(module.decoration, proto, ())
    return proto


def _write_computation(
    computation: HloComputation, proto: hlo_pb2.HloComputationProto, is_fusion: bool
) -> None:
    proto.name = computation.name
    proto.id = computation.id
    proto.root_id = _wire_id(computation, computation.root)
    proto.program_shape.CopyFrom(program_shape_to_proto(computation.program_shape))
    proto.is_fusion_computation = is_fusion
    proto.execution_thread = computation.execution_thread
    for instruction in computation.instructions:
        checkpoint()
        _write_instruction(computation, instruction, proto.instructions.add())


def _write_instruction(
    computation: HloComputation,
    instruction: HloInstruction,
    proto: hlo_pb2.HloInstructionProto,
) -> None:
    proto.name = instruction.name
    proto.opcode = str(instruction.opcode)
    proto.id = _wire_id(computation, instruction)
    proto.shape.CopyFrom(shape_to_proto(_written_shape(instruction)))
    proto.operand_ids.extend(_wire_id(computation, part) for part in instruction.operands)
    proto.control_predecessor_ids.extend(
        _wire_id(computation, part) for part in instruction.control_predecessors
    )
    proto.called_computation_ids.extend(called.id for called in instruction.called)
    definition(instruction.opcode).encode(instruction.attributes, proto)
    if instruction.decoration is not None:
        copy_fields(instruction.decoration, proto, present_fields(proto))


def _written_shape(instruction: HloInstruction) -> Shape:
    # XLA does not load a constant whose shape and literal have different layouts.
    if instruction.opcode is Opcode.CONSTANT and not instruction.shape.has_layout:
        literal: Literal = instruction.attributes.literal
        return literal.shape
    return instruction.shape


def _wire_id(computation: HloComputation, instruction: HloInstruction) -> int:
    return (computation.id << 32) | instruction.id

"""Modules without the instructions that some values do not need."""

from collections.abc import Collection, Sequence

from tests.fuzz.answers.steps.graph import Case, entry_of
from xla_contract.stubs import hlo_pb2


def ancestors(entry: hlo_pb2.HloComputationProto, number: int) -> set[int]:
    """Return the ids of an instruction, what it is computed from, and elements of these tuples."""
    by_id = {instruction.id: instruction for instruction in entry.instructions}
    found: set[int] = set()
    open_ids = [number]
    while open_ids:
        one = open_ids.pop()
        if one not in found:
            found.add(one)
            open_ids += by_id[one].operand_ids
    # The elements of a tuple are its results.
    for instruction in entry.instructions:
        if instruction.opcode == "get-tuple-element" and instruction.operand_ids[0] in found:
            found.add(instruction.id)
    return found


def pruned(case: Case, kept: Collection[int], shown: Sequence[int] = ()) -> Case:
    """Return the module with these instructions of its entry, and `shown` or all as results."""
    proto = hlo_pb2.HloModuleProto()
    proto.CopyFrom(case.proto)
    entry = entry_of(proto)
    root = next(i for i in entry.instructions if i.id == entry.root_id)
    results = [
        (number, shape)
        for number, shape in zip(root.operand_ids, root.shape.tuple_shapes, strict=True)
        if number in (shown or kept)
    ]
    instructions = [i for i in entry.instructions if i.id in kept and i.id != root.id]
    parameters = [i for i in instructions if i.opcode == "parameter"]
    parameters.sort(key=lambda i: i.parameter_number)
    arguments = [case.arguments[i.parameter_number] for i in parameters]
    for signature in (proto.host_program_shape, entry.program_shape):
        shapes = [signature.parameters[i.parameter_number] for i in parameters]
        del signature.parameters[:], signature.parameter_names[:]
        signature.parameters.extend(shapes)
        signature.parameter_names.extend(i.name for i in parameters)
    for number, parameter in enumerate(parameters):
        parameter.parameter_number = number
    new_root = hlo_pb2.HloInstructionProto()
    new_root.CopyFrom(root)
    del new_root.operand_ids[:], new_root.shape.tuple_shapes[:]
    for number, shape in results:
        new_root.operand_ids.append(number)
        new_root.shape.tuple_shapes.add().CopyFrom(shape)
    copies = [*instructions, new_root]
    kept_copies = []
    for instruction in copies:
        copy = hlo_pb2.HloInstructionProto()
        copy.CopyFrom(instruction)
        kept_copies.append(copy)
    del entry.instructions[:]
    entry.instructions.extend(kept_copies)
    for signature in (proto.host_program_shape, entry.program_shape):
        signature.result.CopyFrom(new_root.shape)
    return Case(case.origin, proto, arguments)

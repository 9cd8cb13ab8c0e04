"""HloModuleProto -> HloModule.

The checks are those that make the message a module: ids, names, order, arity, attributes. The
verifier checks that shapes follow from each other.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError, XlaError
from xla_contract.ops.definition import OpDefinition
from xla_contract.ops.definitions import definition
from xla_contract.stubs import hlo_pb2, xla_data_pb2
from xla_contract.types.opcode import VARIADIC, Opcode
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.proto import literal_from_proto
from xla_contract.wire.shape_proto import program_shape_from_proto, shape_from_proto
from xla_server.ir.checkpoints import checkpoint
from xla_server.ir.module import HloComputation, HloInstruction, HloModule, require_length
from xla_server.ir.unmodelled_fields import decoration_of, present_fields

MAX_COMPUTATION_ID = 2**31 - 1
"""Computation ids are the upper half of instruction ids in the writing of today's XLA."""

_LOW_32_BITS = 0xFFFFFFFF
"""Mask of an instruction's own number: the upper half of its id is the computation's."""

_MODULE_FIELDS = frozenset(
    {
        "name",
        "id",
        "computations",
        "entry_computation_name",
        "entry_computation_id",
        "host_program_shape",
    }
)
_INSTRUCTION_FIELDS = frozenset(
    {
        "name",
        "opcode",
        "shape",
        "id",
        "operand_ids",
        "called_computation_ids",
        "control_predecessor_ids",
        "literal",
    }
)
_OPCODES = {str(opcode): opcode for opcode in Opcode}


def import_module(
    proto: hlo_pb2.HloModuleProto, *, max_literal_bytes: int | None = None
) -> HloModule:
    """The module written in `proto`.

    Instruction ids count by their low 32 bits within their computation, so both ways of
    numbering in use are read. Fields without meaning to the computation are kept as decoration.
    Raises InvalidArgumentError for anything malformed, UnimplementedError for an opcode without
    definition, ResourceExhaustedError for more than MAX_INSTRUCTIONS, and when the constants
    together pass `max_literal_bytes`, and as `checkpoint`.
    """
    if not proto.HasField("host_program_shape"):
        raise InvalidArgumentError(
            f"a module must say its host_program_shape, got none in module {_quote(proto.name)}"
        )
    require_length(sum(len(part.instructions) for part in proto.computations))
    reader = _Reader(max_literal_bytes)
    computations = [reader.read_computation(part) for part in proto.computations]
    entry = reader.computations.get(proto.entry_computation_id)
    if entry is None:
        raise InvalidArgumentError(
            "entry_computation_id must name one of the module's computations, got "
            f"{proto.entry_computation_id} among {_some(reader.computations)}"
        )
    try:
        entry_program_shape = program_shape_from_proto(proto.host_program_shape)
    except XlaError as error:
        raise error.at("host_program_shape") from error.__cause__
    return HloModule(
        proto.name,
        proto.id,
        computations,
        entry,
        entry_program_shape,
        decoration_of(proto, _MODULE_FIELDS),
    )


def import_serialized_module(data: bytes, *, max_literal_bytes: int | None = None) -> HloModule:
    """Import a serialized HloModuleProto; raises as `import_module`."""
    proto = hlo_pb2.HloModuleProto.FromString(data)
    return import_module(proto, max_literal_bytes=max_literal_bytes)


class _Reader:
    """State of the import: the module's parts so far, while its computations are read in order."""

    def __init__(self, max_literal_bytes: int | None) -> None:
        self.computations: dict[int, HloComputation] = {}
        self._computation_names: set[str] = set()
        self._instruction_names: set[str] = set()
        self._shapes: dict[bytes, Shape] = {}
        self._max_literal_bytes = max_literal_bytes
        self._literal_bytes = 0

    def read_computation(self, proto: hlo_pb2.HloComputationProto) -> HloComputation:
        location = f"computation %{_clip(proto.name)}"
        if not proto.name or proto.name in self._computation_names:
            raise InvalidArgumentError(
                "computation names must be unique and not empty, got "
                f"{_quote(proto.name)} for the computation with id {proto.id}"
            )
        if not 0 <= proto.id <= MAX_COMPUTATION_ID or proto.id in self.computations:
            raise InvalidArgumentError(
                f"{location}: computation ids must be unique and between 0 and "
                f"{MAX_COMPUTATION_ID}, got {proto.id} after {_some(self.computations)}"
            )
        known: dict[int, HloInstruction] = {}
        for part in proto.instructions:
            checkpoint()
            self._read_instruction(part, known, location)
        root = known.get(proto.root_id & _LOW_32_BITS)
        if root is None:
            raise InvalidArgumentError(
                f"{location}: root_id must name an instruction of the computation, got "
                f"{proto.root_id & _LOW_32_BITS} among {_some(known)}"
            )
        instructions = list(known.values())
        parameters = _parameters(instructions, location)
        computation = HloComputation(
            proto.name, proto.id, instructions, root, parameters, proto.execution_thread
        )
        self.computations[proto.id] = computation
        self._computation_names.add(proto.name)
        return computation

    def _read_instruction(
        self, proto: hlo_pb2.HloInstructionProto, known: dict[int, HloInstruction], location: str
    ) -> None:
        try:
            instruction = self._instruction(proto, known, location)
        except XlaError as error:
            raise error.at(
                _clip(proto.opcode) or "instruction", _clip(proto.name)
            ) from error.__cause__
        known[instruction.id] = instruction
        self._instruction_names.add(instruction.name)

    def _instruction(
        self, proto: hlo_pb2.HloInstructionProto, known: dict[int, HloInstruction], location: str
    ) -> HloInstruction:
        opcode = _OPCODES.get(proto.opcode)
        if opcode is None:
            raise InvalidArgumentError(
                f"opcode must be one of HLO's, got {_quote(proto.opcode)} in {location}"
            )
        if not proto.name or proto.name in self._instruction_names:
            raise InvalidArgumentError(
                "instruction names must be unique in the module and not empty, got "
                f"{_quote(proto.name)} again in {location}"
            )
        number = proto.id & _LOW_32_BITS
        if proto.id < 0 or number in known:
            raise InvalidArgumentError(
                "instruction ids must not be negative and must be unique in their computation by "
                f"their low 32 bits, got {proto.id} (low half {number}) in {location}"
            )
        defined = definition(opcode)
        if opcode.arity not in (VARIADIC, len(proto.operand_ids)):
            raise InvalidArgumentError(
                f"the number of operands must be {opcode.arity}, got {len(proto.operand_ids)} "
                f"in {location}"
            )
        operands = _listed_before("operand", proto.operand_ids, known, location)
        predecessors = _listed_before(
            "control predecessor", proto.control_predecessor_ids, known, location
        )
        called = self._called(proto.called_computation_ids, location)
        if not proto.HasField("shape"):
            raise InvalidArgumentError(f"an instruction must say its shape, got none in {location}")
        shape = self._shape(proto.shape)
        if proto.HasField("literal"):
            self._count_literal(self._shape(proto.literal.shape))
            if opcode is Opcode.CUSTOM_CALL:
                literal_from_proto(proto.literal)  # Refuses what could not be printed.
        attributes = defined.decode(proto, shape)
        return HloInstruction(
            proto.name,
            number,
            opcode,
            shape,
            operands,
            attributes,
            called,
            predecessors,
            decoration_of(proto, _modelled(defined, attributes)),
        )

    def _called(self, ids: Iterable[int], location: str) -> tuple[HloComputation, ...]:
        found = []
        for number in ids:
            computation = self.computations.get(number)
            if computation is None:
                raise InvalidArgumentError(
                    "called computations must be listed before their callers, got "
                    f"called_computation_ids {number} in {location} after "
                    f"{_some(self.computations)}"
                )
            found.append(computation)
        return tuple(found)

    def _shape(self, proto: xla_data_pb2.ShapeProto) -> Shape:
        # A program repeats a few shapes thousands of times.
        key = proto.SerializeToString()
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = shape_from_proto(proto)
        return shape

    def _count_literal(self, shape: Shape) -> None:
        self._literal_bytes += max(0, shape.byte_size)
        if self._max_literal_bytes is not None and self._literal_bytes > self._max_literal_bytes:
            raise ResourceExhaustedError(
                f"the constants of a module may take {self._max_literal_bytes} bytes together, "
                f"got {self._literal_bytes} up to this one of shape {shape}"
            )


def _listed_before(
    role: str, ids: Iterable[int], known: dict[int, HloInstruction], location: str
) -> tuple[HloInstruction, ...]:
    found = []
    for position, number in enumerate(ids):
        instruction = known.get(number & _LOW_32_BITS)
        if instruction is None:
            raise InvalidArgumentError(
                f"{role}s must be listed before their users, got {role} {position} with id "
                f"{number & _LOW_32_BITS} in {location} after {_some(known)}"
            )
        found.append(instruction)
    return tuple(found)


def _parameters(
    instructions: Sequence[HloInstruction], location: str
) -> tuple[HloInstruction, ...]:
    parameters = [part for part in instructions if part.opcode is Opcode.PARAMETER]
    parameters.sort(key=lambda parameter: parameter.attributes.number)
    numbers = [parameter.attributes.number for parameter in parameters]
    if numbers != list(range(len(parameters))):
        raise InvalidArgumentError(
            f"{location}: parameter numbers must be 0 to {len(parameters) - 1}, each once, got "
            f"{_some(numbers)}"
        )
    return tuple(parameters)


def _modelled(defined: OpDefinition, attributes: Any) -> set[str] | frozenset[str]:
    if defined.opcode is Opcode.CONSTANT or not defined.fields:
        return _INSTRUCTION_FIELDS
    written = hlo_pb2.HloInstructionProto()
    defined.encode(attributes, written)
    modelled = _INSTRUCTION_FIELDS | present_fields(written)
    return modelled - {"literal"} if defined.opcode is Opcode.CUSTOM_CALL else modelled


def _some(values: Iterable[int]) -> str:
    """Return the first few ids as text, so that a message stays short for a module of any size."""
    numbers = list(values)
    shown = ", ".join(map(str, numbers[:8]))
    return f"[{shown}, ... {len(numbers)} in all]" if len(numbers) > 8 else f"[{shown}]"


def _clip(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _quote(text: str) -> str:
    return f"'{_clip(text)}'"

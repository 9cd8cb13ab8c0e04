"""A finished program."""

import copy
import os
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from google.protobuf.message import DecodeError

from xla_client.coercion.numbers import described
from xla_client.coercion.parameters import brief
from xla_client.programs import conversions
from xla_client.programs.conversions import ModuleConverter
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError
from xla_contract.stubs import hlo_pb2
from xla_contract.types.shape import ProgramShape, Shape
from xla_contract.wire.shape_proto import program_shape_from_proto

if TYPE_CHECKING:
    from xla_contract.types.devices.device_grid import DeviceGrid

ProgramLike: TypeAlias = Any
"""A program in one of these forms: a Computation; a Builder, whose last instruction is the result;
an Op, which is the result; HLO as a message, as its bytes or as text; StableHLO as text or bytes.

Objects of XLA's Python bindings, of `jax.jit(f).lower(...)`, its StableHLO as `compiler_ir()`, and
of `jax.export.export(f)(...)` count, too."""

_ACCEPTED = (
    "a Computation, a Builder or an Op, an HloModuleProto or its bytes, HLO text, StableHLO, a "
    "jax.stages.Lowered or a jax.export.Exported"
)


class Computation:
    """An immutable program: what `Builder.build` returns, or HLO that was made elsewhere.

    It can be compiled, or called by other computations (reduce, while_, call ...).
    """

    __slots__ = ("_program_shape", "_proto", "grid")

    def __init__(self, proto: hlo_pb2.HloModuleProto, grid: "DeviceGrid | None" = None) -> None:
        """Take over `proto`; use `from_proto` for a message that stays the caller's.

        `grid` has the replicas and partitions that the header of its text states, if any.

        Raises:
            InvalidArgumentError: The module has no entry computation or no host_program_shape.
        """
        if not proto.HasField("host_program_shape"):
            raise InvalidArgumentError(
                f"a module must say its host_program_shape, got none in {proto.name!r}"
            )
        if all(part.id != proto.entry_computation_id for part in proto.computations):
            raise InvalidArgumentError(
                "entry_computation_id must name a computation of the module, got "
                f"{proto.entry_computation_id} in {proto.name!r}"
            )
        self._proto = proto
        self.grid = grid
        shape = program_shape_from_proto(proto.host_program_shape)
        self._program_shape = ProgramShape(
            tuple(parameter.with_default_layout() for parameter in shape.parameters),
            shape.result.with_default_layout(),
            shape.parameter_names,
        )

    @classmethod
    def from_proto(cls, proto: hlo_pb2.HloModuleProto) -> "Computation":
        """The program of a module message, which is copied."""
        if not isinstance(proto, hlo_pb2.HloModuleProto):
            raise ArgumentTypeError(
                f"a module must be an HloModuleProto, got {type(proto).__name__}",
                hint="Computation.from_serialized takes bytes",
            )
        return cls(copy.deepcopy(proto))

    @classmethod
    def from_serialized(cls, data: bytes, grid: "DeviceGrid | None" = None) -> "Computation":
        """The program of a serialized HloModuleProto, or of an HloProto as dumps hold it.

        JAX gives one: `jax.jit(f).lower(*args).compiler_ir("hlo")`, then
        `.as_serialized_hlo_module_proto()`.

        Args:
            data: The bytes of the message.
            grid: The replicas and partitions to compile it for, unless `compile` is given a mesh.

        Returns:
            The program.

        Raises:
            ArgumentTypeError: `data` is not bytes.
            InvalidArgumentError: The bytes are neither message.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise ArgumentTypeError(
                f"a serialized module must be bytes, got {type(data).__name__}",
                hint="Computation.from_proto takes a message",
            )
        module = _parse_module(bytes(data))
        if module is None:
            raise InvalidArgumentError(
                f"a serialized HloModuleProto or HloProto is needed, got {len(data)} bytes that "
                "are neither",
                hint="jax.export.deserialize(data) makes a program of the bytes of "
                "Exported.serialize().",
            )
        return cls(module, grid)

    @classmethod
    @brief
    def from_text(cls, text: str, client: ModuleConverter) -> "Computation":
        """The program of HLO text, which the server reads; errors have the line and the column."""
        return cls.from_serialized(*conversions.from_text(text, client))

    @classmethod
    def from_any(cls, program: Any, client: ModuleConverter | None = None) -> "Computation":
        """The Computation of a program in any form; as `as_computation`."""
        return as_computation(program, client)

    def to_text(self, client: ModuleConverter) -> str:
        """The program as HLO text, which the server writes."""
        return conversions.to_text(self.to_bytes(), client)

    @property
    def name(self) -> str:
        """The name of the module."""
        return self._proto.name

    @property
    def program_shape(self) -> ProgramShape:
        """The signature; every array has a layout."""
        return self._program_shape

    @property
    def parameters(self) -> tuple[Shape, ...]:
        """The shapes of the parameters."""
        return self._program_shape.parameters

    @property
    def result(self) -> Shape:
        """The shape of the result."""
        return self._program_shape.result

    @property
    def proto(self) -> hlo_pb2.HloModuleProto:
        """A copy of the module message."""
        return copy.deepcopy(self._proto)

    def to_bytes(self) -> bytes:
        """The serialized HloModuleProto."""
        return self._proto.SerializeToString()

    def write_to(self, message: hlo_pb2.HloModuleProto) -> None:
        """Copy the module into a field of a request."""
        message.CopyFrom(self._proto)

    def __repr__(self) -> str:
        return f"Computation({self.name!r}, {self._program_shape})"

    def _repr_html_(self) -> str:
        from xla_client.display.graphs import graph_html  # Notebooks alone draw.

        return graph_html(self._proto, repr(self))


def as_computation(program: ProgramLike, client: ModuleConverter | None = None) -> Computation:
    """Return a program, in any of its forms, as a Computation.

    Args:
        program: The program.
        client: Its server reads HLO text; needed for nothing else.

    Raises:
        InvalidArgumentError: It is no program. For HLO text the message has line and column.
        UnimplementedError: It is StableHLO and jaxlib is not installed.
        ArgumentTypeError: It is of a type that no program has.
    """
    building = sys.modules.get("xla_client.programs.builder")
    if building is not None and isinstance(program, building.Builder):
        program = program.build()
    elif building is not None and isinstance(program, building.Op):
        program = program.builder.build(program)
    if isinstance(program, Computation):
        return program
    if isinstance(program, hlo_pb2.HloModuleProto):
        return Computation.from_proto(program)
    if isinstance(program, bytes | bytearray | memoryview):
        return Computation.from_serialized(conversions.from_bytes(bytes(program)))
    if isinstance(program, str):
        return Computation.from_serialized(*conversions.from_text(program, client))
    if hasattr(program, "as_serialized_hlo_module_proto"):
        return Computation.from_serialized(program.as_serialized_hlo_module_proto())
    if hasattr(program, "compiler_ir"):
        return Computation.from_serialized(
            program.compiler_ir("hlo").as_serialized_hlo_module_proto()
        )
    if hasattr(program, "mlir_module_serialized"):
        return Computation.from_serialized(conversions.from_exported(program))
    if hasattr(getattr(program, "operation", None), "write_bytecode"):
        return Computation.from_serialized(conversions.from_mlir(program))
    raise ArgumentTypeError(
        f"computation must be {_ACCEPTED}, got {described(program)}", hint=_advice(program)
    )


def _advice(program: object) -> str:
    if isinstance(program, os.PathLike):
        return conversions.FILE_HINT
    if hasattr(program, "runtime_executable"):
        return "It was compiled for this machine: pass what lower(...) returned, without compile()."
    if hasattr(program, "lower"):
        return "A function of jax.jit becomes a program for arguments: f.lower(x)."
    if callable(program):
        return (
            "A function becomes a program for arguments: jax.jit(f).lower(x), or with a Builder "
            "builder.build(f(builder.parameter(0, shape)))."
        )
    return ""


def _parse_module(data: bytes) -> hlo_pb2.HloModuleProto | None:
    # Field 1 of an HloModuleProto is its name and of an HloProto a module, so at most one of the
    # two readings has computations.
    try:
        module = hlo_pb2.HloModuleProto.FromString(data)
        if module.computations:
            return module
    except DecodeError:
        pass
    try:
        dump = hlo_pb2.HloProto.FromString(data)
    except DecodeError:
        return None
    return dump.hlo_module if dump.hlo_module.computations else None

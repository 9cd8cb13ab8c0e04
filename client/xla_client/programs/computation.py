"""A finished program."""

import copy
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from xla_client.session.public_methods import brief
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError
from xla_contract.shape import ProgramShape, Shape
from xla_contract.shape_proto import program_shape_from_proto
from xla_contract.stubs import hlo_pb2

if TYPE_CHECKING:
    from xla_client.client import Client


class Computation:
    """An immutable program: what `Builder.build` returns, or HLO that was made elsewhere.

    It can be compiled, or called by other computations (reduce, while_, call ...).
    """

    __slots__ = ("_program_shape", "_proto")

    def __init__(self, proto: hlo_pb2.HloModuleProto) -> None:
        """Take over `proto`; use `from_proto` for a message that stays the caller's.

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
    def from_serialized(cls, data: bytes) -> "Computation":
        """The program of a serialized HloModuleProto, or of an HloProto as dumps hold it.

        JAX gives one: `jax.jit(f).lower(*args).compiler_ir("hlo")`, then
        `.as_serialized_hlo_module_proto()`.

        Args:
            data: The bytes of the message.

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
                "are neither"
            )
        return cls(module)

    @classmethod
    @brief
    def from_text(cls, text: str, client: "Client") -> "Computation":
        """The program of HLO text, which the server reads; errors have the line and the column."""
        from xla_client.programs.conversions import as_computation

        return as_computation(text, client)

    @classmethod
    def from_any(cls, program: Any, client: "Client | None" = None) -> "Computation":
        """The program of whatever says one; as `xla_client.programs.conversions.as_computation`."""
        from xla_client.programs.conversions import as_computation

        return as_computation(program, client)

    def to_text(self, client: "Client") -> str:
        """The program as HLO text, which the server writes."""
        from xla_client.programs.conversions import to_text

        return to_text(self, client)

    @property
    def name(self) -> str:
        """The name of the module."""
        return self._proto.name

    @property
    def program_shape(self) -> ProgramShape:
        """The signature; every array says its layout."""
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

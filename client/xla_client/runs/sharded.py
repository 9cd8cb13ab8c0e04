"""Programs that run on several devices at the same time.

Semantics: XLA's replicas and partitions, and shardings of values over a mesh of devices.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from xla_client.coercion.parameters import brief, parameter_class
from xla_client.runs import run_request as runs
from xla_client.runs.arguments import (
    Argument,
    as_buffer,
    require_count,
    without_executions,
)
from xla_client.session.buffer import Buffer
from xla_client.session.public_methods import public
from xla_contract.errors import InvalidArgumentError, LostError, UnimplementedError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs.xla_extension_pb2 import (
    CAPABILITY_SHARDED,
    ExecuteShardedRequest,
    ShardedArgument,
)
from xla_contract.types.devices import mesh as meshes
from xla_contract.types.devices.sharding import Sharding
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_from_proto
from xla_contract.wire.sharding_proto import sharding_to_proto

if TYPE_CHECKING:
    from xla_client.session.session import Session
    from xla_contract.types.shape import ProgramShape

Axes: TypeAlias = str | Sequence[str] | None
"""The axes of a mesh that cut one dimension, the first one major; None cuts nothing."""


@parameter_class
@dataclasses.dataclass(frozen=True, slots=True)
class Sharded:
    """An argument of `execute_sharded` that is cut, and its sharding."""

    value: Argument
    sharding: Sharding


@parameter_class
@dataclasses.dataclass(frozen=True, slots=True)
class Shards:
    """An argument of `execute_sharded` that is a value of its own for each participant."""

    values: Sequence[Argument]


@parameter_class
class Mesh:
    """Devices as a grid with named axes, from `Client.mesh`, on which a program runs.

    Its devices, row by row, run the participants 0, 1, 2 and so on. `replicas` of them are copies
    of the program, which collectives without a channel join; each has `size / replicas` partitions.
    """

    def __init__(
        self, sizes: Sequence[int], names: Sequence[str], ordinals: Sequence[int], replicas: int
    ) -> None:
        self._mesh = meshes.Mesh(tuple(sizes), tuple(names))
        if len(self._mesh.names) != len(self._mesh.sizes) or len(set(names)) != len(names):
            raise InvalidArgumentError(
                f"a mesh must have a name of its own for each axis, got {list(names)} for "
                f"{list(sizes)}"
            )
        if replicas < 1 or self.size % replicas:
            raise InvalidArgumentError(
                f"replicas must divide the {self.size} devices of the mesh, got {replicas}"
            )
        self._ordinals = tuple(ordinals) or tuple(range(self.size))
        if len(self._ordinals) != self.size:
            raise InvalidArgumentError(
                f"a mesh must have a device for each of {self.size} positions, got "
                f"{len(self._ordinals)}"
            )
        self._replicas = replicas

    @property
    def size(self) -> int:
        """The number of devices."""
        return self._mesh.size

    @property
    def shape(self) -> dict[str, int]:
        """The size of each axis by its name."""
        return dict(zip(self._mesh.names, self._mesh.sizes, strict=True))

    @property
    def replicas(self) -> int:
        """The number of copies of the program."""
        return self._replicas

    @property
    def ordinals(self) -> tuple[int, ...]:
        """The number of each participant's device."""
        return self._ordinals

    @brief
    def sharding(self, *axes: Axes) -> Sharding:
        """Return the sharding that cuts each dimension along its axes of the mesh.

        Args:
            axes: For each dimension the name of an axis, names of several, or None.

        Returns:
            The sharding; along other axes there are copies.

        Raises:
            InvalidArgumentError: An axis is unknown, or there twice.
        """
        names = self._mesh.names
        parts = []
        for along in axes:
            wanted = (along,) if isinstance(along, str) else along or ()
            for name in wanted:
                if name not in names:
                    raise InvalidArgumentError(
                        f"an axis must be one of the mesh's {list(names)}, got {name!r}"
                    )
            parts.append([meshes.AxisPart(names.index(name)) for name in wanted])
        return Sharding.along(self._mesh, parts)

    @brief
    def shard(self, value: Argument, *axes: Axes) -> Sharded:
        """Return an argument that is cut as `sharding` says, for `execute_sharded`."""
        return Sharded(value, self.sharding(*axes))

    def write_to(self, options: xla_pb2.ExecutionOptions) -> None:
        """Say in the options of a compilation on which devices the program runs."""
        replicas = self._replicas
        partitions = options.num_partitions = self.size // replicas
        options.num_replicas = replicas
        assignment = options.device_assignment
        assignment.replica_count, assignment.computation_count = replicas, partitions
        for partition in range(partitions):
            ordinals = self._ordinals[partition::partitions]
            assignment.computation_devices.add(replica_device_ids=ordinals)

    def __repr__(self) -> str:
        return f"Mesh({self.shape}, replicas={self._replicas})"


class ShardedRuns(abc.ABC):
    """The method of `Executable` that runs it on several devices."""

    _session: "Session"
    _program_shape: "ProgramShape"

    @property
    @abc.abstractmethod
    def handle(self) -> int:
        """The execution handle on the wire."""

    @public
    def execute_sharded(
        self,
        *arguments: Argument,
        join: Sharding | Sequence[Sharding] | bool = False,
        timeout: float | None = None,
    ) -> Any:
        """Run a program that was compiled for a mesh, on all of its devices at the same time.

        Args:
            arguments: `Mesh.shard(x, ...)` for a value that is cut, `Shards([...])` for one value
                for each participant; anything else goes to all.
            join: Assembly of the results to one: a sharding, or one for each element of a tuple.
                With True as the program states, and else the result of participant 0.
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Returns:
            A list with the result of each participant, or the joined one: as of a call, Buffers.

        Raises:
            InvalidArgumentError: An argument does not fit, or cannot be cut so.
            FailedPreconditionError: A participant has ended where others wait for it.
            DeadlineExceededError: A participant is late where others wait for it.
            UnimplementedError: The server has one device at a time only.
        """
        session, result = self._session, self._program_shape.result
        if CAPABILITY_SHARDED not in session.transport.capabilities:
            raise UnimplementedError("a server must have CAPABILITY_SHARDED, got one without")
        parameters = self._program_shape.parameters
        require_count(arguments, parameters)
        request = ExecuteShardedRequest(executable=xla_data_pb2.ExecutionHandle(handle=self.handle))
        alive, passed = [], without_executions(arguments)
        for number, (argument, shape) in enumerate(zip(passed, parameters, strict=True)):
            try:
                alive.append(self._argument(request.arguments.add(), argument, shape, timeout))
            except (InvalidArgumentError, LostError) as error:
                raise error.at(f"argument {number}") from error.__cause__
        request.output.flatten = runs.is_flat_tuple(result)
        if join is not False:
            request.output.join = True
            if join is not True:
                sharding = join if isinstance(join, Sharding) else Sharding.tuple_of(join)
                request.output.sharding.CopyFrom(sharding_to_proto(sharding))
        answer = session.call("ExecuteSharded", request, timeout)
        # The program's signature may have whole values; the server returns the shape of the result
        # of one participant.
        result = shape_from_proto(answer.shape)
        results = [
            runs.kept(session, [each.handle for each in one.outputs], result)
            for one in answer.results
        ]
        return results if join is False else results[0]

    def _argument(
        self, message: ShardedArgument, argument: Argument, shape: Shape, timeout: float | None
    ) -> list[Buffer]:
        """Write an argument to a message; return the buffers that must outlive the message."""
        session = self._session
        if isinstance(argument, Shards):
            buffers = [
                as_buffer(session, each, _as_given(each, shape), 0, timeout)
                for each in without_executions(argument.values)
            ]
            for each in buffers:
                message.shards.shards.add(handle=each.handle)
            return buffers
        if isinstance(argument, Sharded):
            message.sharding.CopyFrom(sharding_to_proto(argument.sharding))
            whole = argument.sharding.whole_shape(shape.without_layout())
            (argument,), shape = without_executions([argument.value]), whole.with_default_layout()
        buffer = as_buffer(session, argument, _as_given(argument, shape), 0, timeout)
        message.data.handle = buffer.handle
        return [buffer]


def _as_given(value: Argument, parameter: Shape) -> Shape:
    """The parameter's shape with the dimensions of the value, which the server checks."""
    if isinstance(value, Buffer):
        return value.shape
    sizes = getattr(value, "shape", None)
    if not parameter.is_array or not isinstance(sizes, tuple) or sizes == parameter.dimensions:
        return parameter
    return parameter.with_dimensions(sizes).with_default_layout()

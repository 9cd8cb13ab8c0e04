"""State of a session on the server: its quotas and their use."""

import dataclasses
from collections.abc import Iterable

from xla_client.display.tables import human_bytes, records
from xla_client.transport.errors import error_of_status
from xla_contract.errors import XlaError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.types.shape import ProgramShape, Shape
from xla_contract.wire.shape_proto import program_shape_from_proto, shape_from_proto


@dataclasses.dataclass(frozen=True, slots=True)
class Quotas:
    """Limits of a session, or its use of them.

    They are bytes of values on the devices, handles of values and of executables, items and bytes
    in the fullest queue of a feed, executions at the same time and launched ones. Also seconds of
    compiling within an hour, and bytes of answers that were not read yet.
    """

    device_bytes: int
    handles: int
    queued_items: int
    queued_bytes: int
    concurrent_executions: int
    launched_executions: int
    compile_seconds: float
    answer_bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class ValueDescription:
    """A value, for `Client.adopt`.

    It may be that of an execution which has not given it yet (`is_pending`) or never will
    (`error`).
    """

    handle: int
    shape: Shape
    is_pending: bool
    error: XlaError | None


@dataclasses.dataclass(frozen=True, slots=True)
class ExecutableDescription:
    """A compiled program, for `Client.adopt_executable`."""

    handle: int
    name: str
    program_shape: ProgramShape


@dataclasses.dataclass(frozen=True, slots=True)
class ExecutionDescription:
    """A launched execution, for `Client.adopt_execution`; `outputs` are handles of values."""

    handle: int
    name: str
    is_done: bool
    outputs: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class SessionDescription:
    """A session: its limits, its use of them, and what is in it, in the order of its making."""

    quotas: Quotas
    use: Quotas
    values: tuple[ValueDescription, ...]
    executables: tuple[ExecutableDescription, ...]
    executions: tuple[ExecutionDescription, ...]

    def __repr__(self) -> str:
        """Say in a line how much there is of what."""
        use, quotas = self.use, self.quotas
        running = sum(not execution.is_done for execution in self.executions)
        return (
            f"SessionDescription({len(self.values)} values, {human_bytes(use.device_bytes)} of "
            f"{human_bytes(quotas.device_bytes)} on the devices; {len(self.executables)} "
            f"executables; {len(self.executions)} executions, {running} running)"
        )

    def _repr_html_(self) -> str:
        rows: list[tuple[object, ...]] = [
            ("value", each.handle, "", each.shape, _state_of(each)) for each in self.values
        ]
        rows += [
            ("executable", each.handle, each.name, each.program_shape, "")
            for each in self.executables
        ]
        rows += [
            ("execution", each.handle, each.name, "", "done" if each.is_done else "running")
            for each in self.executions
        ]
        return records(repr(self), ("", "handle", "name", "shape", "state"), rows)


def _state_of(value: ValueDescription) -> str:
    if value.error is not None:
        return f"failed: {value.error}"
    return "to come" if value.is_pending else ""


def quotas_of(proto: extension_pb2.Quotas) -> Quotas:
    """The limits, or the use, in a message."""
    names = [field.name for field in dataclasses.fields(Quotas)]
    return Quotas(**{name: getattr(proto, name) for name in names})


def descriptions_of(
    handles: Iterable[extension_pb2.HandleDescription],
) -> tuple[
    tuple[ValueDescription, ...],
    tuple[ExecutableDescription, ...],
    tuple[ExecutionDescription, ...],
]:
    """Values, executables and executions in answers to DescribeHandles."""
    values: list[ValueDescription] = []
    executables: list[ExecutableDescription] = []
    executions: list[ExecutionDescription] = []
    for each in handles:
        kind = each.WhichOneof("kind")
        if kind == "value":
            values.append(_value(each.handle, each.value))
        elif kind == "executable":
            shape = program_shape_from_proto(each.executable.program_shape)
            executables.append(ExecutableDescription(each.handle, each.executable.name, shape))
        elif kind == "execution":
            executions.append(_execution(each.handle, each.execution))
    return tuple(values), tuple(executables), tuple(executions)


def _value(handle: int, proto: extension_pb2.ValueDescription) -> ValueDescription:
    error = error_of_status("DescribeHandles", proto.status) if proto.status else None
    return ValueDescription(handle, shape_from_proto(proto.shape), proto.is_pending, error)


def _execution(handle: int, proto: extension_pb2.ExecutionDescription) -> ExecutionDescription:
    outputs = tuple(output.handle for step in proto.steps for output in step.outputs)
    return ExecutionDescription(handle, proto.name, proto.is_done, outputs)

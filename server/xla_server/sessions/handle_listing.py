"""Descriptions of the handles of a session, for a client that resumes it."""

import dataclasses
from collections.abc import Iterator
from typing import TypeAlias

from xla_contract.errors import InvalidArgumentError, NotFoundError, XlaError
from xla_contract.types.shape import Shape
from xla_server.sessions.programs.executable_table import ExecutableTable, LoadedExecutable
from xla_server.sessions.runs.background_executions import BackgroundExecutions, LaunchedExecution
from xla_server.sessions.values.futures import ValueFuture
from xla_server.sessions.values.handles import HandleFactory, HandleKind
from xla_server.sessions.values.value_table import ValueTable


@dataclasses.dataclass(frozen=True, slots=True)
class ValueDescription:
    """A value on a device, or one that an execution has not computed yet or never will."""

    shape: Shape
    is_pending: bool = False
    error: XlaError | None = None


Description: TypeAlias = ValueDescription | LoadedExecutable | LaunchedExecution


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class HandleListing:
    """The descriptions of a session's handles."""

    handles: HandleFactory
    values: ValueTable
    executables: ExecutableTable
    executions: BackgroundExecutions

    def describe(self, handle: int) -> Description:
        """Return the description of a handle.

        Raises InvalidArgumentError for one that was freed and NotFoundError for one that never was;
        an execution whose result was returned is NotFoundError, too.
        """
        if self.executables.handles.has_issued(handle):
            return self.executables.handles.get(handle)
        if self.handles.was_issued(handle, HandleKind.EXECUTION):
            return self.executions.get(handle)
        entry = self.values.handles.get(handle)
        if not isinstance(entry, ValueFuture):
            return ValueDescription(entry.shape)
        error = entry.error
        return ValueDescription(entry.shape, error is None and not entry.is_done, error)

    def after(self, after: int) -> Iterator[tuple[int, Description]]:
        """Values, executables, executions, each in the order in which they were made.

        They begin behind the handle `after`, live or freed, or with the first for 0. Raises
        NotFoundError for a handle that the session never issued for any of them.
        """
        tables = [part.handles for part in (self.values, self.executables, self.executions)]
        first = 0
        if after:
            issuers = [number for number, table in enumerate(tables) if table.has_issued(after)]
            if not issuers:
                raise NotFoundError(
                    "after must be 0 or the handle of a value, executable or execution of this "
                    f"session, got {after}, which it was never given"
                )
            first = issuers[0]
        for number, table in enumerate(tables[first:]):
            for handle in table.handles_after(0 if number else after):
                try:
                    description = self.describe(handle)
                except (InvalidArgumentError, NotFoundError):
                    continue  # It was freed meanwhile.
                yield handle, description

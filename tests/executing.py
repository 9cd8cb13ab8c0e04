"""One execution of an executable, which has no feeds and no channels."""

from collections.abc import Sequence
from typing import Any

from xla_server.backends.platform import Executable, Execution
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.execute_options import ExecuteOptions


def execute(
    executable: Executable,
    device: Any,
    arguments: Sequence[Any],
    cancellation: Cancellation | None = None,
    donated: Sequence[int] = (),
) -> Execution:
    """Return the execution on arguments that are on the device."""
    options = ExecuteOptions(cancellation=cancellation or Cancellation(), donated=tuple(donated))
    return executable.execute(list(arguments), device=device, options=options)

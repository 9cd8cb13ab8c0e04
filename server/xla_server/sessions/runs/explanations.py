"""Cost, memory and explanations of executables, for the session that has them."""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError
from xla_server.backends.compile_options import DumpFormat, DumpOptions, Pattern
from xla_server.backends.diagnostics.dump_files import MAX_MODULE_BYTES, DumpInMemory
from xla_server.buffers.work import Work, work_once
from xla_server.execution.cancellation import Cancellation
from xla_server.ir.checkpoints import cancellable
from xla_server.sessions.programs.executable_table import LoadedExecutable
from xla_server.sessions.runs.program_runner import ProgramRunner


def analyse(
    runner: ProgramRunner, handle: int | None, cancellation: Cancellation
) -> tuple[LoadedExecutable, Work]:
    """Return an executable and the work of its module; raises as `ProgramRunner.compiled_under`.

    A program without code is read again, which raises as `ProgramRunner.counted_as_compiling`.
    """
    compiled = runner.compiled_under(handle)
    if compiled.work is not None:
        return compiled, compiled.work.once
    with runner.counted_as_compiling(cancellation):
        return compiled, work_once(runner.module_of(compiled))


def explanation_bytes(max_bytes: int, max_message_bytes: int) -> int:
    """Return how many bytes an explanation may take for which a client allows `max_bytes`.

    Raises InvalidArgumentError for a negative number.
    """
    if max_bytes < 0:
        raise InvalidArgumentError(f"max_bytes must not be negative, got {max_bytes}")
    return min(max_bytes or MAX_MODULE_BYTES, MAX_MODULE_BYTES, max_message_bytes)


def explain(
    runner: ProgramRunner,
    handle: int | None,
    cancellation: Cancellation,
    *,
    formats: frozenset[DumpFormat],
    passes: Pattern | None,
    is_profiled: bool,
    arguments: Sequence[int],
    max_bytes: int,
) -> DumpInMemory:
    """Compile the program of an executable again, and describe the passes and the code.

    Modules are written in `formats`, before and after the passes whose names `passes` finds too.
    If `is_profiled`, the program is run once on `arguments`. Files take `max_bytes` at most.

    Raises as `ProgramRunner.compiled_under` and `ProgramRunner.compile_once`, and as Execute for
    arguments and for programs of several devices that are run; InvalidArgumentError for arguments
    of a program that is not run.
    """
    find = runner.alone_under if is_profiled else runner.compiled_under
    compiled = find(handle)
    if arguments and not is_profiled:
        raise InvalidArgumentError(
            f"arguments are for a profile only, got {len(arguments)} without"
        )
    buffers = runner.checked_arguments(compiled, arguments) if is_profiled else ()
    files = DumpInMemory(max_bytes)
    dump = DumpOptions(formats=formats, passes=passes, files=files)
    options = dataclasses.replace(compiled.program.options, dump=dump, is_profiled=is_profiled)
    with cancellable(cancellation.check):
        executable = runner.compile_once(compiled.program, options)
    if is_profiled:
        runner.run_once(compiled, executable, buffers, cancellation)
    return files

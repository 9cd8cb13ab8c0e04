"""Cost, memory and explanations of executables, for the session that has them."""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError
from xla_server.backends.compile_options import DumpFormat, DumpOptions, Pattern
from xla_server.backends.diagnostics.dump_directory import MAX_MODULE_BYTES, DumpInMemory
from xla_server.backends.platform import Buffer
from xla_server.buffers.assignment import MemoryUse
from xla_server.buffers.work import Work, work_once
from xla_server.execution.cancellation import Cancellation
from xla_server.ir.checkpoints import cancellable
from xla_server.sessions.runs.program_runner import ProgramRunner


@dataclasses.dataclass(frozen=True, slots=True)
class Analysis:
    """The cost of an executable: work of its module and, if it has any, its code; memory."""

    once: Work
    done: Work | None
    memory: MemoryUse
    kept_bytes: int
    """Bytes of code and constants."""


@dataclasses.dataclass(frozen=True, slots=True)
class ExplanationRequest:
    """The parts of an explanation that a client requests.

    Modules are written in `formats`, before and after the passes whose names `passes` finds too.
    If `is_profiled`, the program is run once on `arguments`. Files take `max_bytes` at most.
    """

    formats: frozenset[DumpFormat]
    passes: Pattern | None
    is_profiled: bool
    arguments: Sequence[int]
    max_bytes: int


def analyse(runner: ProgramRunner, handle: int | None, cancellation: Cancellation) -> Analysis:
    """Return what an executable costs; raises as `ProgramRunner.compiled_under`.

    A program without code is read again, which raises as `ProgramRunner.counted_as_compiling`.
    """
    compiled = runner.compiled_under(handle)
    if compiled.work is not None:
        once, done = compiled.work.once, compiled.work.done
        return Analysis(once, done, compiled.memory, compiled.kept_bytes)
    with runner.counted_as_compiling(cancellation):
        once = work_once(runner.module_of(compiled))
    return Analysis(once, None, compiled.memory, compiled.kept_bytes)


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
    request: ExplanationRequest,
    cancellation: Cancellation,
) -> DumpInMemory:
    """Compile the program of an executable again, and describe the passes and the code.

    Raises as `ProgramRunner.compiled_under` and `ProgramRunner.compile_once`, and as Execute for
    arguments and for programs of several devices that are run; InvalidArgumentError for arguments
    of a program that is not run.
    """
    find = runner.alone_under if request.is_profiled else runner.compiled_under
    compiled = find(handle)
    if request.arguments and not request.is_profiled:
        raise InvalidArgumentError(
            f"arguments are for a profile only, got {len(request.arguments)} without"
        )
    arguments: Sequence[Buffer] = ()
    if request.is_profiled:
        arguments = runner.checked_arguments(compiled, request.arguments)
    files = DumpInMemory(request.max_bytes)
    dump = DumpOptions("explanation", request.formats, request.passes)
    options = dataclasses.replace(
        compiled.program.options, dump=dump, is_profiled=request.is_profiled
    )
    with cancellable(cancellation.check):
        executable = runner.compile_once(compiled.program, options, files)
    if request.is_profiled:
        runner.run_once(compiled, executable, arguments, cancellation)
    return files

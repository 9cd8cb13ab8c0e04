"""The command xla-server compile: a program from a file, through the compiler, into text files."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

from xla_contract.errors import InvalidArgumentError, UnimplementedError
from xla_server.app.compile_tool.modules import load_module
from xla_server.app.compile_tool.trial_run import trial_run
from xla_server.app.options.settings import load_settings
from xla_server.app.platforms import create_backend
from xla_server.backends.compile_options import DumpOptions, Pattern
from xla_server.backends.compiled.compilation import Compilation, compile_module
from xla_server.backends.diagnostics.dump import Dump
from xla_server.backends.diagnostics.dump_files import DumpFiles
from xla_server.backends.diagnostics.private_files import make_directories
from xla_server.backends.signature import laid_out, relaid_bytes
from xla_server.buffers.assignment import memory_use
from xla_server.buffers.code import CopyThunk, HostThunk, KernelThunk
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.ir.drawings.graphviz import print_dot
from xla_server.ir.drawings.html import print_html
from xla_server.ir.module import HloModule

EVERY_PASS = DumpOptions("dump", passes=Pattern(""))
"""A dump of everything. The name is not used: the command names a directory."""


def compile_file(
    path: Path,
    dump_to: Path | None,
    *,
    is_run: bool = False,
    profile_to: Path | None = None,
    capability: str = "",
) -> Iterator[str]:
    """Compile the program in a file; yield the lines of a summary.

    With `dump_to`, writes to this directory, which is made if it is missing: the module as it was
    read and before and after each pass that changed it, the kernels, the buffers and graphs. With
    `is_run` or `profile_to`, runs the program as `trial_run` does, on the platform of servers. With
    `capability`, compiles for a GPU of that compute capability, which need not be present. Raises
    as `load_module`, `create_backend` and `trial_run`, UnimplementedError for a program that has no
    kernels or a dynamic shape, and InvalidArgumentError for a capability that is unknown, or is
    combined with a run.
    """
    if capability and (is_run or profile_to is not None):
        raise InvalidArgumentError(
            f"a program must be compiled for this machine to be run, got capability {capability}"
        )
    module = load_module(path)
    if has_dynamic_shapes(module):
        raise UnimplementedError(
            "a program of dynamic shape is compiled at the sizes that it meets when it runs, got "
            f"dynamic dimensions in {module.name}"
        )
    files = None if dump_to is None else _files(dump_to)
    yield f"module {module.name}: {module.entry.program_shape}"
    dump = None if files is None else Dump(files, EVERY_PASS)
    if capability:
        from xla_server.backends.cuda.offline import compile_for

        compilation, written, notes = compile_for(capability, module, dump)
    else:
        compilation, written, notes = compile_module(module, observer=dump), {}, ()
    if files is not None:
        for name, data in written.items():
            files.write(name, data)
        files.write("module.dot", print_dot(compilation.module))
        files.write("module.html", print_html(compilation.module))
    yield from _summary(module, compilation)
    yield from notes
    if dump_to is not None:
        yield f"written to {dump_to}"
    if is_run or profile_to is not None:
        profile = None if profile_to is None else _files(profile_to)
        yield from trial_run(create_backend(load_settings({})), module, profile)
        if profile_to is not None:
            yield f"profile written to {profile_to}"


def _files(directory: Path) -> DumpFiles:
    make_directories(directory)
    return DumpFiles(directory)


def _summary(module: HloModule, compilation: Compilation) -> Iterator[str]:
    code, locations = compilation.code, compilation.assignment.locations
    changed = ", ".join(dict.fromkeys(compilation.changed)) or "none"
    yield f"passes that changed it: {changed}"
    yield f"instructions: {_count(module)} read, {_count(compilation.module)} after the passes"
    calls = [thunk for thunk in code.thunks if isinstance(thunk, KernelThunk)]
    copies = [thunk for thunk in code.thunks if isinstance(thunk, CopyThunk)]
    left = sum(locations[thunk.target] != locations[thunk.source] for thunk in copies)
    host = sum(isinstance(thunk, HostThunk) for thunk in code.thunks)
    yield f"work asked for: {compilation.work.once}"
    yield f"work done: {compilation.work.done}"
    yield f"kernels: {len({thunk.source for thunk in calls})}, in {len(calls)} calls"
    yield f"copies: {left} of {len(copies)} left; calls of the host: {host}"
    yield f"constants: {sum(value.byte_size for value in code.constants)} bytes"
    yield f"arena: {compilation.assignment.arena_bytes} bytes"
    use = memory_use(code, compilation.assignment)
    signature = laid_out(module.entry.program_shape, module.entry_program_shape)
    yield f"peak memory: {dataclasses.replace(use, copies=relaid_bytes(signature))}"


def _count(module: HloModule) -> int:
    return sum(1 for _ in module.instructions())

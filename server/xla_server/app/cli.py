"""The console command xla-server."""

from pathlib import Path
from typing import Annotated, Any

import typer

from xla_contract.errors import XlaError
from xla_server.app.config import (
    ENVIRONMENT_PREFIX,
    ConfigurationError,
    LogLevel,
    Platform,
    described,
    load_settings,
)
from xla_server.app.logs import configure_logs
from xla_server.app.run import run_until_signalled
from xla_server.rpc.discovery import is_healthy
from xla_server.rpc.listeners import CannotListenError

EXIT_FAILED = 1
EXIT_USAGE = 2
_CONFIG_VARIABLE = f"{ENVIRONMENT_PREFIX}CONFIG"

cli = typer.Typer(
    name="xla-server",
    help="Keeps values, compiles XLA programs and runs them for clients that speak gRPC.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _flag(name: str) -> Any:
    """The flag of a field of Settings; where it is not given, the next source decides."""
    return typer.Option(help=described(name), show_default=False)


@cli.command()
def serve(
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with any of these options",
            envvar=_CONFIG_VARIABLE,
            show_default=False,
        ),
    ] = None,
    listen: Annotated[list[str] | None, _flag("listen")] = None,
    platform: Annotated[Platform | None, _flag("platform")] = None,
    devices: Annotated[int | None, _flag("devices")] = None,
    grace_seconds: Annotated[float | None, _flag("grace_seconds")] = None,
    log_level: Annotated[LogLevel | None, _flag("log_level")] = None,
    max_device_bytes: Annotated[int | None, _flag("max_device_bytes")] = None,
    max_message_bytes: Annotated[int | None, _flag("max_message_bytes")] = None,
    max_executables: Annotated[int | None, _flag("max_executables")] = None,
    max_idle_executables: Annotated[int | None, _flag("max_idle_executables")] = None,
    max_idle_executable_bytes: Annotated[int | None, _flag("max_idle_executable_bytes")] = None,
    max_answer_bytes: Annotated[int | None, _flag("max_answer_bytes")] = None,
    max_resident_bytes: Annotated[int | None, _flag("max_resident_bytes")] = None,
    max_handles: Annotated[int | None, _flag("max_handles")] = None,
    max_sessions: Annotated[int | None, _flag("max_sessions")] = None,
    session_grace_seconds: Annotated[float | None, _flag("session_grace_seconds")] = None,
    session_device_bytes: Annotated[int | None, _flag("session_device_bytes")] = None,
    session_executions: Annotated[int | None, _flag("session_executions")] = None,
    max_executions: Annotated[int | None, _flag("max_executions")] = None,
    session_launches: Annotated[int | None, _flag("session_launches")] = None,
    session_compile_seconds: Annotated[float | None, _flag("session_compile_seconds")] = None,
    session_answer_bytes: Annotated[int | None, _flag("session_answer_bytes")] = None,
    max_streams: Annotated[int | None, _flag("max_streams")] = None,
    session_streams: Annotated[int | None, _flag("session_streams")] = None,
    shared_memory_bytes: Annotated[int | None, _flag("shared_memory_bytes")] = None,
    session_shared_memory_bytes: Annotated[int | None, _flag("session_shared_memory_bytes")] = None,
    shared_memory_connections: Annotated[int | None, _flag("shared_memory_connections")] = None,
    max_concurrent_calls: Annotated[int | None, _flag("max_concurrent_calls")] = None,
    session_calls: Annotated[int | None, _flag("session_calls")] = None,
    feed_items: Annotated[int | None, _flag("feed_items")] = None,
    feed_bytes: Annotated[int | None, _flag("feed_bytes")] = None,
    short_threads: Annotated[int | None, _flag("short_threads")] = None,
    compile_threads: Annotated[int | None, _flag("compile_threads")] = None,
    execute_threads: Annotated[int | None, _flag("execute_threads")] = None,
    compilation_cache_dir: Annotated[str | None, _flag("compilation_cache_dir")] = None,
    prepare: Annotated[bool | None, _flag("prepare")] = None,
    dump_dir: Annotated[str | None, _flag("dump_dir")] = None,
    custom_calls: Annotated[str | None, _flag("custom_calls")] = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then drain and exit 0.

    Options come from flags, else the environment, else the TOML file, else defaults: --feed-items
    is XLA_SERVER_FEED_ITEMS in the environment and feed_items in the file.
    """
    flags = {
        "listen": listen or None,
        "platform": platform,
        "devices": devices,
        "grace_seconds": grace_seconds,
        "log_level": log_level,
        "max_device_bytes": max_device_bytes,
        "max_message_bytes": max_message_bytes,
        "max_executables": max_executables,
        "max_idle_executables": max_idle_executables,
        "max_idle_executable_bytes": max_idle_executable_bytes,
        "max_answer_bytes": max_answer_bytes,
        "max_resident_bytes": max_resident_bytes,
        "max_handles": max_handles,
        "max_sessions": max_sessions,
        "session_grace_seconds": session_grace_seconds,
        "session_device_bytes": session_device_bytes,
        "session_executions": session_executions,
        "max_executions": max_executions,
        "session_launches": session_launches,
        "session_compile_seconds": session_compile_seconds,
        "session_answer_bytes": session_answer_bytes,
        "max_streams": max_streams,
        "session_streams": session_streams,
        "shared_memory_bytes": shared_memory_bytes,
        "session_shared_memory_bytes": session_shared_memory_bytes,
        "shared_memory_connections": shared_memory_connections,
        "max_concurrent_calls": max_concurrent_calls,
        "session_calls": session_calls,
        "feed_items": feed_items,
        "feed_bytes": feed_bytes,
        "short_threads": short_threads,
        "compile_threads": compile_threads,
        "execute_threads": execute_threads,
        "compilation_cache_dir": compilation_cache_dir,
        "prepare": prepare,
        "dump_dir": dump_dir,
        "custom_calls": custom_calls,
    }
    try:
        settings = load_settings(flags, config)
        configure_logs(settings.log_level)
        run_until_signalled(settings)
    except ConfigurationError as error:
        _fail(str(error), EXIT_USAGE)
    except CannotListenError as error:
        _fail(str(error), EXIT_FAILED)


@cli.command()
def health(
    target: Annotated[str, typer.Option(help="address of the server")] = "127.0.0.1:1685",
    timeout: Annotated[float, typer.Option(help="seconds to wait for an answer")] = 2.0,
) -> None:
    """Exit 0 when the server at the target serves, else 1."""
    if not is_healthy(target, timeout):
        _fail(f"{target} does not serve", EXIT_FAILED)


@cli.command(name="compile")
def compile_program(
    program: Annotated[
        Path, typer.Argument(help="a serialized HloModuleProto (.pb) or HLO text (.txt, .hlo)")
    ],
    dump_to: Annotated[
        Path | None,
        typer.Option(help="directory for the modules, kernels and buffers", show_default=False),
    ] = None,
    is_run: Annotated[
        bool, typer.Option("--run", help="run it too, on random arguments", show_default=False)
    ] = False,
    profile: Annotated[
        Path | None,
        typer.Option(
            help="run it, and write the time of each of its steps into this directory",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Compile a program for this machine's processor and say what became of it.

    Exits 2 when the file holds no program that can be compiled and, with --run, run.
    """
    # The compiler takes seconds to load, which the other commands do not wait for.
    from xla_server.app.compile import compile_file

    try:
        for line in compile_file(program, dump_to, is_run=is_run, profile_to=profile):
            typer.echo(line)
    except XlaError as error:
        _fail(" ".join(error.message.split()), EXIT_USAGE)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}", EXIT_USAGE)


def main() -> None:
    """Run the command of this process's arguments."""
    cli(prog_name="xla-server")


def _fail(message: str, code: int) -> None:
    for line in message.splitlines():
        typer.echo(f"xla-server: {line}", err=True)
    raise typer.Exit(code)

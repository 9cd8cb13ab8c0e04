"""The commands of xla-server. Each loads the modules that it needs when it is called."""

import contextlib
import enum
import importlib.metadata
import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from xla_server.app.calling.credentials import CREDENTIAL_FLAGS, checked_target, credentials_for
from xla_server.app.endings import EXIT_FAILED, EXIT_USAGE, ending, fail, with_hint
from xla_server.app.options.flags import with_flags

Target: TypeAlias = Annotated[str, typer.Option(help="address of the server")]
Sessions: TypeAlias = Annotated[
    int, typer.Option(min=1, max=256, help="sessions to list, those with most bytes first")
]
Timeout: TypeAlias = Annotated[float, typer.Option(help="seconds to wait for a response")]

_FROM_THE_TOP = "\x1b[H\x1b[2J"
"""The codes that empty a terminal and put its cursor into the upper left corner."""


RoleName = enum.StrEnum("RoleName", "VIEWER USER ADMIN")
"""Roles that a token can be made for."""


class _Commands(TyperGroup):
    """The commands; the options of `serve` are loaded on demand."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands; click would ask `get_command` for each of them."""
        rows = [(name, each.get_short_help_str(100)) for name, each in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name; None if there is none."""
        if cmd_name != "serve":
            return super().get_command(ctx, cmd_name)
        from xla_server.app.serving.serve import serve

        loaded = typer.Typer(add_completion=False, rich_markup_mode=None)
        loaded.command(name="serve")(serve)
        return typer.main.get_command(loaded)


app = typer.Typer(
    name="xla-server",
    help="Keeps values, compiles XLA programs and runs them for clients that speak gRPC.",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Boxes drawn around help take a third of its time, and no program reads them.
    rich_markup_mode=None,
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"xla-server {importlib.metadata.version('xla-service')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="print the version and exit", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Keeps values, compiles XLA programs and runs them for clients that speak gRPC."""


@app.command(name="serve")
def _serve() -> None:
    """Serve until SIGTERM or SIGINT, then drain and exit 0."""
    raise AssertionError("it stands in the list for the command that get_command loads")


@app.command()
@with_flags(CREDENTIAL_FLAGS)
def health(target: Target = "127.0.0.1:1685", timeout: Timeout = 2.0, **flags: Any) -> None:
    """Exit 0 when the server at the target serves, else 1. No token is needed, and none is sent."""
    from xla_server.app.calling.remote import connection_hint, open_channel
    from xla_server.rpc.health_check import health_fault

    with ending():
        target = checked_target(target)
        credentials = credentials_for(target, flags | {"insecure": True})
        fault = health_fault(target, timeout, lambda _: open_channel(target, credentials, timeout))
    if fault:
        hint = connection_hint(fault)
        fail(f"{target} does not serve: {with_hint(fault, hint)}", EXIT_FAILED)


@app.command(name="token")
def make_token(
    name: Annotated[str, typer.Argument(help="the identity that the token is for")],
    role: Annotated[RoleName, typer.Option(help="what the caller may do")] = RoleName.USER,
    append_to: Annotated[
        Path | None,
        typer.Option(help="append the line to this file, and print the token alone"),
    ] = None,
) -> None:
    """Make a bearer token, and the line of --token-file that lets it in."""
    from xla_server.identity.identity import Role
    from xla_server.identity.tokens import append_line, new_token, token_line

    token = new_token()
    with ending():
        try:
            line = token_line(name, Role.parse(role), token)
            if append_to is not None:
                append_line(append_to, line)
        except ValueError as error:
            fail(str(error), EXIT_USAGE)
    if append_to is not None:
        typer.echo(token)
        return
    typer.echo(f"token: {token}")
    typer.echo(f"line:  {line}")


@app.command(name="compile")
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
    capability: Annotated[
        str,
        typer.Option(help="compile for GPUs of this kind, such as sm_90", show_default=False),
    ] = "",
) -> None:
    """Compile a program for this machine's processor, or a GPU, and say what became of it.

    Exits 2 when the file holds no program that can be compiled and, with --run, run.
    """
    from xla_server.app.compile_tool.compile_command import compile_file

    with ending(failed=EXIT_USAGE):
        lines = compile_file(
            program, dump_to, is_run=is_run, profile_to=profile, capability=capability
        )
        for line in lines:
            typer.echo(line)


@app.command()
@with_flags(CREDENTIAL_FLAGS)
def status(
    target: Target = "127.0.0.1:1685",
    as_json: Annotated[
        bool, typer.Option("--json", help="one line of JSON, with the contract's field names")
    ] = False,
    sessions: Sessions = 20,
    timeout: Timeout = 10.0,
    **credentials: Any,
) -> None:
    """Print a server's memory, executables, executions and sessions. Needs the role admin."""
    from xla_server.app.calling.status import as_json as in_json
    from xla_server.app.calling.status import as_lines, server_state

    with _remote(target, timeout, credentials) as remote:
        state = server_state(remote, sessions)
        typer.echo(in_json(state) if as_json else "\n".join(as_lines(state)))


@app.command()
@with_flags(CREDENTIAL_FLAGS)
def top(
    target: Target = "127.0.0.1:1685",
    interval: Annotated[float, typer.Option(min=0.1, help="seconds between two reports")] = 2.0,
    count: Annotated[int, typer.Option(min=0, help="reports to print; 0: until Ctrl-C")] = 0,
    sessions: Sessions = 20,
    timeout: Timeout = 10.0,
    **credentials: Any,
) -> None:
    """Print what `status` prints again and again, until Ctrl-C. Needs the role admin."""
    from xla_server.app.calling.status import as_lines, server_state

    with _remote(target, timeout, credentials) as remote:
        for look in itertools.count(1):
            lines = list(as_lines(server_state(remote, sessions)))
            # On a terminal each report overwrites the one before.
            start = _FROM_THE_TOP if sys.stdout.isatty() else ""
            typer.echo(start + "\n".join(lines))
            if look == count:
                return
            time.sleep(interval)


@contextlib.contextmanager
def _remote(target: str, timeout: float, credentials: dict[str, Any]) -> Iterator[Any]:
    """Call a server within the block; errors and Ctrl-C in it end the command."""
    from xla_server.app.calling.remote import Remote

    with ending():
        target = checked_target(target)
        try:
            with Remote(target, credentials_for(target, credentials), timeout) as remote:
                yield remote
        except KeyboardInterrupt:
            raise typer.Exit(0) from None

"""The commands of xla-server. Each loads the modules that it needs when it is called."""

import contextlib
import enum
import importlib.metadata
import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer.core import TyperGroup

from xla_server.app.calling import options as calling
from xla_server.app.endings import EXIT_FAILED, EXIT_USAGE, fail, one_line

if TYPE_CHECKING:
    from xla_server.app.calling.remote import Remote

Target: TypeAlias = Annotated[str, typer.Option(help="address of the server")]
Sessions: TypeAlias = Annotated[
    int, typer.Option(min=1, max=256, help="sessions to list, those with most bytes first")
]
Timeout: TypeAlias = Annotated[float, typer.Option(help="seconds to wait for an answer")]


_FROM_THE_TOP = "\x1b[H\x1b[2J"
"""The codes that empty a terminal and put its cursor into the upper left corner."""


class RoleName(enum.StrEnum):
    """Roles that a token can be made for."""

    VIEWER = "viewer"
    USER = "user"
    ADMIN = "admin"


class _Commands(TyperGroup):
    """The commands; the options of `serve` are loaded when somebody asks for them."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands; click would ask `get_command` for each of them."""
        rows = [(name, each.get_short_help_str(100)) for name, each in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name; None if there is none."""
        if cmd_name != "serve":
            return super().get_command(ctx, cmd_name)
        from xla_server.app.serve import serve

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
    # Drawn boxes are a third of the time that help takes, and no program reads them.
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
def health(
    target: Annotated[str, typer.Option(help="address of the server")] = "127.0.0.1:1685",
    timeout: Annotated[float, typer.Option(help="seconds to wait for an answer")] = 2.0,
    ca_file: Annotated[
        Path | None,
        typer.Option(help="PEM certificates to trust; with it TLS is spoken", show_default=False),
    ] = None,
    cert_file: Annotated[
        Path | None,
        typer.Option(help="PEM certificate of this client, where it needs one", show_default=False),
    ] = None,
    key_file: Annotated[
        Path | None, typer.Option(help="PEM key of cert-file", show_default=False)
    ] = None,
) -> None:
    """Exit 0 when the server at the target serves, else 1. No token is needed."""
    from xla_server.app.calling.credentials import CredentialsOptionError, checked_target
    from xla_server.rpc.health_check import health_fault
    from xla_server.rpc.peers.tls import channel_credentials

    try:
        target = checked_target(target)
        credentials = channel_credentials(ca_file, cert_file, key_file)
    except CredentialsOptionError as error:
        fail(str(error), EXIT_USAGE)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}", EXIT_USAGE)
    fault = health_fault(target, timeout, credentials)
    if fault:
        fail(f"{target} does not serve: {' '.join(fault.split())}", EXIT_FAILED)


@app.command(name="token")
def make_token(
    name: Annotated[str, typer.Argument(help="who the token is for")],
    role: Annotated[RoleName, typer.Option(help="what the caller may do")] = RoleName.USER,
) -> None:
    """Make a bearer token, and the line of --token-file that lets it in."""
    from xla_server.identity.identity import Role
    from xla_server.identity.tokens import new_token, token_line

    token = new_token()
    try:
        line = token_line(name, Role.parse(role), token)
    except ValueError as error:
        fail(str(error), EXIT_USAGE)
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
) -> None:
    """Compile a program for this machine's processor and say what became of it.

    Exits 2 when the file holds no program that can be compiled and, with --run, run.
    """
    from xla_contract.errors import XlaError
    from xla_server.app.compile import compile_file
    from xla_server.app.config import ConfigurationError

    try:
        for line in compile_file(program, dump_to, is_run=is_run, profile_to=profile):
            typer.echo(line)
    except ConfigurationError as error:
        fail(str(error), EXIT_USAGE)
    except XlaError as error:
        fail(" ".join(error.message.split()), EXIT_USAGE)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}", EXIT_USAGE)


@app.command()
def status(
    target: Target = "127.0.0.1:1685",
    as_json: Annotated[
        bool, typer.Option("--json", help="one line of JSON, with the contract's field names")
    ] = False,
    sessions: Sessions = 20,
    timeout: Timeout = 10.0,
    token_file: calling.TokenFile = None,
    ca_file: calling.CaFile = None,
    cert_file: calling.CertFile = None,
    key_file: calling.KeyFile = None,
    fingerprint: calling.Fingerprint = None,
    tls: calling.UseTls = False,
    insecure: calling.Insecure = False,
) -> None:
    """Say what a server has: memory, executables, executions, sessions. Needs the role admin."""
    from xla_server.app.calling import status as view

    flags = calling.credential_flags(locals())
    with _remote(target, flags, timeout) as remote:
        state = view.server_state(remote, sessions)
        typer.echo(view.as_json(state) if as_json else "\n".join(view.as_lines(state)))


@app.command()
def top(
    target: Target = "127.0.0.1:1685",
    interval: Annotated[float, typer.Option(min=0.1, help="seconds between two looks")] = 2.0,
    count: Annotated[int, typer.Option(min=0, help="looks after which to end; 0: at Ctrl-C")] = 0,
    sessions: Sessions = 20,
    timeout: Timeout = 10.0,
    token_file: calling.TokenFile = None,
    ca_file: calling.CaFile = None,
    cert_file: calling.CertFile = None,
    key_file: calling.KeyFile = None,
    fingerprint: calling.Fingerprint = None,
    tls: calling.UseTls = False,
    insecure: calling.Insecure = False,
) -> None:
    """Say what `status` says again and again, until Ctrl-C. Needs the role admin."""
    from xla_server.app.calling import status as view

    flags = calling.credential_flags(locals())
    with _remote(target, flags, timeout) as remote:
        for look in itertools.count(1):
            lines = list(view.as_lines(view.server_state(remote, sessions)))
            # On a terminal each look overwrites the one before.
            start = _FROM_THE_TOP if sys.stdout.isatty() else ""
            typer.echo(start + "\n".join(lines))
            if look == count:
                return
            time.sleep(interval)


@contextlib.contextmanager
def _remote(target: str, flags: dict[str, Any], timeout: float) -> "Iterator[Remote]":
    """A server to call; what goes wrong in the block ends the command with one line."""
    from xla_contract.errors import XlaError
    from xla_server.app.calling.credentials import (
        CredentialsOptionError,
        checked_target,
        credentials_for,
    )
    from xla_server.app.calling.remote import Remote

    try:
        target = checked_target(target)
        with Remote(target, credentials_for(target, flags), timeout) as remote:
            yield remote
    except CredentialsOptionError as error:
        fail(str(error), EXIT_USAGE)
    except XlaError as error:
        fail(one_line(error), EXIT_FAILED)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None

"""The console command xla-run: a program from a file, on numpy's files."""

from pathlib import Path
from typing import Annotated

import typer

from xla_server.app.calling import options as calling
from xla_server.app.endings import EXIT_FAILED, EXIT_USAGE, fail, one_line
from xla_server.app.platform_names import DEFAULT, REFERENCE, Platform

PROGRAM = "xla-run"
_PLATFORMS = (DEFAULT, *(each for each in Platform if each is not DEFAULT))
_REFERENCES = ("jax", REFERENCE)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def run(
    module: Annotated[
        Path,
        typer.Argument(
            help="HLO text (.hlo, .txt), a serialized HloModuleProto or HloProto (.pb), StableHLO "
            "(.mlir, with jaxlib); - for standard input"
        ),
    ],
    inputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--input",
            help=".npy with the next argument, or .npz with several, by parameter or in order",
            show_default=False,
        ),
    ] = None,
    outputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            help=".npy for the next result, or one .npz for all; without, results are printed",
            show_default=False,
        ),
    ] = None,
    random: Annotated[
        int | None,
        typer.Option(
            metavar="SEED", help="make up arguments that no input has", show_default=False
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="a server's address; without, this process runs it", show_default=False),
    ] = None,
    platform: Annotated[
        str, typer.Option(help=f"without a target: {' or '.join(_PLATFORMS)}")
    ] = _PLATFORMS[0],
    compare: Annotated[
        str | None,
        typer.Option(
            help=f"say how far the results are from those of {' or '.join(_REFERENCES)}; exit with "
            "1 where types, sizes, or what is finite, differ",
            show_default=False,
        ),
    ] = None,
    is_timed: Annotated[
        bool, typer.Option("--time", help="run it twice and say what it took")
    ] = False,
    token_file: calling.TokenFile = None,
    ca_file: calling.CaFile = None,
    cert_file: calling.CertFile = None,
    key_file: calling.KeyFile = None,
    fingerprint: calling.Fingerprint = None,
    tls: calling.UseTls = False,
    insecure: calling.Insecure = False,
) -> None:
    """Run a program once, here or on a server.

    Exits 2 for options, programs and files that are wrong, 1 where the program or the server
    fails, else 0.
    """
    given = locals()
    if platform not in _PLATFORMS:
        fail(f"--platform must be {' or '.join(_PLATFORMS)}, got {platform}", EXIT_USAGE, PROGRAM)
    if compare is not None and compare not in _REFERENCES:
        fail(f"--compare must be {' or '.join(_REFERENCES)}, got {compare}", EXIT_USAGE, PROGRAM)
    # Loading the evaluator takes a while; help and wrong options do not wait for it.
    from xla_contract.errors import XlaError
    from xla_server.app.run_tool.program import Wanted, read_program, run_program

    flags = calling.credential_flags(given)
    try:
        wanted = Wanted(target, flags, platform, compare, is_timed, outputs or [])
        program, arguments = read_program(module, inputs or [], outputs or [], random)
    except XlaError as error:
        fail(one_line(error), EXIT_USAGE, PROGRAM)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}", EXIT_USAGE, PROGRAM)
    from xla_server.app.calling.credentials import CredentialsOptionError
    from xla_server.app.config import ConfigurationError

    agrees = True
    try:
        for line, fits in run_program(program, arguments, wanted):
            typer.echo(line)
            agrees = agrees and fits
    except (ConfigurationError, CredentialsOptionError) as error:
        fail(str(error), EXIT_USAGE, PROGRAM)
    except XlaError as error:
        fail(one_line(error), EXIT_FAILED, PROGRAM)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}", EXIT_USAGE, PROGRAM)
    if not agrees:
        raise typer.Exit(EXIT_FAILED)

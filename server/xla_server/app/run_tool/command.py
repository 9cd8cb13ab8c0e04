"""The console command xla-run: a program from a file, on numpy's files."""

from pathlib import Path
from typing import Annotated, Any

import typer

from xla_server.app.calling.credentials import CREDENTIAL_FLAGS
from xla_server.app.endings import EXIT_FAILED, EXIT_USAGE, ending, fail
from xla_server.app.options.flags import with_flags
from xla_server.app.options.platform_names import DEFAULT, REFERENCE, Platform

PROGRAM = "xla-run"
_PLATFORMS = (DEFAULT, *(each for each in Platform if each is not DEFAULT))
_REFERENCES = ("jax", REFERENCE)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
@with_flags(CREDENTIAL_FLAGS)
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
    replicas: Annotated[
        int | None,
        typer.Option(min=1, help="copies of the program that run together", show_default=False),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="parts of each copy; by default both are what the program says: the header of HLO "
            "text, a device assignment, or a mesh",
            show_default=False,
        ),
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
    **credentials: Any,
) -> None:
    """Run a program once, here or on a server.

    Exits 2 for options, programs and files that are wrong, 1 where the program or the server
    fails, else 0.
    """
    if platform not in _PLATFORMS:
        fail(f"--platform must be {' or '.join(_PLATFORMS)}, got {platform}", EXIT_USAGE, PROGRAM)
    if compare is not None and compare not in _REFERENCES:
        fail(f"--compare must be {' or '.join(_REFERENCES)}, got {compare}", EXIT_USAGE, PROGRAM)
    # Loading the evaluator takes a while; help and wrong options do not wait for it.
    from xla_server.app.run_tool.program import ToolOptions, read_program, run_program

    with ending(PROGRAM, failed=EXIT_USAGE):
        options = ToolOptions(target, credentials, platform, compare, is_timed, outputs or [])
        loaded, arguments = read_program(
            module, inputs or [], outputs or [], random, replicas, partitions
        )
    agrees = True
    with ending(PROGRAM):
        for line, fits in run_program(loaded, arguments, options):
            typer.echo(line)
            agrees = agrees and fits
    if not agrees:
        raise typer.Exit(EXIT_FAILED)

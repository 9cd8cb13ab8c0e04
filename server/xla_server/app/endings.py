"""Error exits of commands: a line on standard error for each fault, and an exit status."""

import contextlib
from collections.abc import Iterator
from typing import NoReturn

import typer

from xla_contract.errors import XlaError

EXIT_FAILED = 1
EXIT_USAGE = 2
"""Exit statuses: a failure, and options or files that cannot be used, as argparse has them."""

PROGRAM = "xla-server"


class ConfigurationError(Exception):
    """Options that are wrong; the message states which and why, one line each."""


def fail(message: str, code: int, program: str = PROGRAM) -> NoReturn:
    """Write each line of a message, after the program's name, to standard error, and exit."""
    for line in message.splitlines():
        typer.echo(f"{program}: {line}", err=True)
    raise typer.Exit(code)


def one_line(error: XlaError) -> str:
    """Return the message of an XlaError, and its hint, in one line."""
    return with_hint(error.message, error.hint)


def with_hint(message: str, hint: str) -> str:
    """Return a message, and a hint if there is one, in one line."""
    return " ".join(f"{message} ({hint})".split() if hint else message.split())


@contextlib.contextmanager
def ending(program: str = PROGRAM, *, failed: int = EXIT_FAILED) -> Iterator[None]:
    """Exit with the lines of an error and a status if the block raises.

    The status is EXIT_USAGE for options and files that cannot be used, and `failed` for an
    XlaError.
    """
    try:
        yield
    except ConfigurationError as error:
        fail(str(error), EXIT_USAGE, program)
    except XlaError as error:
        fail(one_line(error), failed, program)
    except OSError as error:
        # The system names no file where writing fails, as on a full disk.
        place = f"{error.filename}: " if error.filename else ""
        fail(f"{place}{error.strerror or error}", EXIT_USAGE, program)

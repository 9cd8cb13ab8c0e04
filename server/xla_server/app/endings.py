"""How commands end: a line on standard error for each fault, and an exit status."""

from typing import Any, NoReturn

import typer

EXIT_FAILED = 1
EXIT_USAGE = 2


def fail(message: str, code: int, program: str = "xla-server") -> NoReturn:
    """End the command with a status, after each line of a message behind the program's name."""
    for line in message.splitlines():
        typer.echo(f"{program}: {line}", err=True)
    raise typer.Exit(code)


def one_line(error: Any) -> str:
    """Return the message of an XlaError, and its hint, in one line."""
    hint = f" ({error.hint})" if error.hint else ""
    return " ".join(f"{error.message}{hint}".split())

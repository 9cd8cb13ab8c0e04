"""Flags that a record declares, as typer reads them."""

from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from xla_server.app.options.flags import flag, switch, with_flags

app = typer.Typer()


@app.command()
@with_flags(
    (
        flag("token_file", str, "file with a token", "FILE"),
        flag("prepare", bool, "compile ahead"),
        switch("tls", "speak TLS"),
    )
)
def command(count: int = 3, **flags: Any) -> None:
    typer.echo(f"{count} {flags}")


@pytest.mark.parametrize(
    ("arguments", "taken"),
    [
        ([], "3 {'token_file': None, 'prepare': None, 'tls': False}"),
        (
            ["--count", "4", "--token-file", "t", "--no-prepare", "--tls"],
            "4 {'token_file': 't', 'prepare': False, 'tls': True}",
        ),
    ],
)
def test_a_command_gets_its_own_parameters_and_the_declared_flags(
    arguments: list[str], taken: str
) -> None:
    result = CliRunner().invoke(app, arguments)
    assert (result.exit_code, result.output.strip()) == (0, taken)


def test_a_switch_has_no_negation_and_unknown_flags_are_refused() -> None:
    for argument in ("--no-tls", "--flags"):
        assert CliRunner().invoke(app, [argument]).exit_code == 2
    text = CliRunner().invoke(app, ["--help"]).output
    assert "file with a token" in text
    assert "FILE" in text

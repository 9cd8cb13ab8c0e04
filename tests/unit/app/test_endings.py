"""Exit statuses and lines of commands that fail."""

import pytest
import typer

from xla_contract.errors import InvalidArgumentError
from xla_server.app.endings import EXIT_FAILED, EXIT_USAGE, ConfigurationError, ending


@pytest.mark.parametrize(
    ("error", "status", "lines"),
    [
        (ConfigurationError("one\ntwo"), EXIT_USAGE, "xla-run: one\nxla-run: two\n"),
        (
            InvalidArgumentError("a shape\nis wrong", hint="transpose"),
            EXIT_FAILED,
            "xla-run: a shape is wrong (transpose)\n",
        ),
        (
            FileNotFoundError(2, "No such file", "x.npy"),
            EXIT_USAGE,
            "xla-run: x.npy: No such file\n",
        ),
        (OSError(28, "No space left"), EXIT_USAGE, "xla-run: No space left\n"),
        (OSError("cannot seek"), EXIT_USAGE, "xla-run: cannot seek\n"),
    ],
)
def test_each_error_is_lines_and_a_status(
    error: Exception, status: int, lines: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, ending("xla-run"):
        raise error
    assert (ended.value.exit_code, capsys.readouterr().err) == (status, lines)


def test_an_xla_error_can_be_one_of_usage_and_others_pass() -> None:
    with pytest.raises(typer.Exit) as ended, ending(failed=EXIT_USAGE):
        raise InvalidArgumentError("no program")
    assert ended.value.exit_code == EXIT_USAGE
    with pytest.raises(ZeroDivisionError), ending():
        raise ZeroDivisionError

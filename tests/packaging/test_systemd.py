"""The unit of deploy/systemd agrees with the server."""

import re
from pathlib import Path

from xla_server.app.options.settings import ENVIRONMENT_PREFIX, Settings

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "xla-server.service"


def _values(key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", UNIT.read_text(), re.MULTILINE)


def test_its_variables_are_options_and_it_waits_for_the_drain() -> None:
    variables = [each.partition("=")[0] for line in _values("Environment") for each in line.split()]
    options = [each for each in variables if each.startswith(ENVIRONMENT_PREFIX)]
    assert options
    for name in options:
        assert name.removeprefix(ENVIRONMENT_PREFIX).lower() in Settings.model_fields
    assert float(_values("TimeoutStopSec")[0]) > Settings.model_fields["grace_seconds"].default
    # Processes of the server do not end before it does.
    assert _values("KillMode") == ["mixed"]
    # Programs are compiled to machine code.
    assert not _values("MemoryDenyWriteExecute")

"""A large program over the wire: it fits into default limits and gives known numbers."""

import os
from pathlib import Path

import pytest

import xla_client as xc
from tests.depth.chains import mixed
from tests.e2e.process import start_server

INSTRUCTIONS = 50_000 if os.environ.get("DEPTH") == "full" else 1_000


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
def test_many_instructions(platform: str, tmp_path: Path) -> None:
    case = mixed(INSTRUCTIONS)
    with (
        start_server(tmp_path, "--platform", platform) as running,
        xc.connect(running.address, timeout=3600) as client,
    ):
        result = client.compile(case.computation).run(*case.arguments)
        case.check([result])

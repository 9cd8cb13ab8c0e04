"""ARCHITECTURE.md draws every package of the parts."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
LINES = PAGE[PAGE.index("```text") : PAGE.index("\n```\n")].splitlines()
LEFT_COLUMNS = 45
"""Width of the boxes on the left, of the client and the contract; the server is on the right."""


@pytest.mark.parametrize("part", ["server/xla_server", "client/xla_client", "protos/xla_contract"])
def test_every_package_is_drawn(part: str) -> None:
    columns = slice(LEFT_COLUMNS, None) if part.startswith("server") else slice(LEFT_COLUMNS)
    drawn = {name for line in LINES for name in re.findall(r"[│;] +(\w+) ", line[columns])}
    packages = {path.parent.name for path in (ROOT / part).glob("*/__init__.py")}
    named = {name for name in packages if f"Not drawn: `{Path(part).name}/{name}`" in PAGE}
    assert packages <= drawn | named

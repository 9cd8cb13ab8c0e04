"""The contracts of import-linter: each names every module of the packages that it is about."""

import tomllib
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[3] / "pyproject.toml"
IGNORED = {"__main__", "_local_child", "health_check"}
"""Modules that are run by name, by Python or by a client."""


def layers() -> list[dict[str, Any]]:
    contracts = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    return [contract for contract in contracts if contract["type"] == "layers"]


def test_a_new_package_has_a_layer() -> None:
    assert layers()
    for contract in layers():
        assert contract.get("exhaustive") is True, contract["name"]
        assert set(contract.get("exhaustive_ignores", ())) <= IGNORED, contract["name"]

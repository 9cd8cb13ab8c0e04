"""The files that each worker of pytest collects, and in which order."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests import conftest

FOLDER = Path(__file__).parent


def collected(number: int, **options: list[str]) -> list[str]:
    """Return what a worker of two collects if it was given this folder."""
    worker = {"workerid": f"gw{number}", "workercount": 2}
    config: Any = SimpleNamespace(
        workerinput=worker, args=[str(FOLDER)], getoption=lambda name: options.get(name)
    )
    conftest._collect_from_elsewhere(config)
    names: list[str] = config.args
    return names


def test_workers_collect_the_same_files_from_different_ones_on() -> None:
    first, second = collected(0), collected(1)
    assert first[0] != second[0]
    assert first == sorted(second) == sorted(map(str, FOLDER.rglob("test_*.py")))


def test_what_is_to_be_ignored_is_not_named() -> None:
    assert collected(1, ignore=[__file__]) == [str(FOLDER)]
    assert collected(1, ignore_glob=["*x*"]) == [str(FOLDER)]

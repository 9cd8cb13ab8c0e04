"""docs/LIBRARY.md lists each module of `xla_client.lib` and each of its public functions."""

import re
from pathlib import Path

from tests.unit.client.documented import public_names
from xla_client import lib

PAGE = Path(__file__).parents[4] / "docs" / "LIBRARY.md"


def listed() -> dict[str, list[str]]:
    modules: dict[str, list[str]] = {}
    name = ""
    rows = re.findall(r"^\| (?:`(\w+)`)? ?\| [^|]+ \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
    for module, functions in rows:
        name = module or name
        modules.setdefault(name, []).extend(re.findall(r"`(\w+)`", functions))
    return modules


def test_the_modules_are_in_order_and_complete() -> None:
    assert list(listed()) == lib.__all__


def test_every_function_is_listed_once() -> None:
    for module, functions in listed().items():
        assert sorted(functions) == sorted(public_names(module)), module

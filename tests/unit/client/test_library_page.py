"""docs/LIBRARY.md lists each module of `xla_client.lib` and each of its public functions."""

import re
from pathlib import Path

from xla_client import lib

PAGE = Path(__file__).parents[3] / "docs" / "LIBRARY.md"


def listed() -> dict[str, list[str]]:
    modules: dict[str, list[str]] = {}
    name = ""
    rows = re.findall(r"^\| (?:`(\w+)`)? ?\| [^|]+ \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
    for module, functions in rows:
        name = module or name
        modules.setdefault(name, []).extend(re.findall(r"`(\w+)`", functions))
    return modules


def public(module: str) -> list[str]:
    names = vars(getattr(lib, module))
    return names.get("__all__") or [
        name
        for name, value in names.items()
        if callable(value)
        and not name.startswith("_")
        and getattr(value, "__module__", "") in (f"xla_client.lib.{module}",)
    ]


def test_the_modules_are_in_order_and_complete() -> None:
    assert list(listed()) == lib.__all__


def test_every_function_is_listed_once() -> None:
    for module, functions in listed().items():
        assert sorted(functions) == sorted(public(module)), module

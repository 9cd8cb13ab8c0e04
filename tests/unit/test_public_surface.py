"""Names that users import stay: a name less breaks programs, a name more is a promise.

`public_names.txt` has them, one line a module. `client/ops/test_xla_builder_names.py` holds
those of `xla_client.ops` to XlaBuilder's.
"""

import importlib.util
import pkgutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import xla_client
import xla_client.lib
from xla_contract import errors

PAGE = Path(__file__).with_name("public_names.txt")
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def own_names(module: ModuleType) -> list[str]:
    """Return the public names that a module defines."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def surface() -> Iterator[tuple[str, list[str]]]:
    yield "xla_client", xla_client.__all__
    for module in pkgutil.iter_modules(xla_client.lib.__path__, "xla_client.lib."):
        yield module.name, own_names(importlib.import_module(module.name))
    yield "xla_contract.errors", own_names(errors)
    scripts = tomllib.loads(PROJECT.read_text())["project"]["scripts"]
    yield "scripts", [f"{name}={target}" for name, target in scripts.items()]


def test_public_names_are_those_of_the_page() -> None:
    lines = [f"{module}: {' '.join(sorted(names))}" for module, names in surface()]
    assert lines == PAGE.read_text().splitlines()


def test_modules_that_are_run_by_name_are_there() -> None:
    for name in ("xla_server.__main__", "xla_client._local_child"):
        assert importlib.util.find_spec(name) is not None

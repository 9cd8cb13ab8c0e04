"""Every function of kernels by its name, from the tables of the modules beside."""

import itertools
import pkgutil
from importlib import import_module
from typing import Any

from xla_server.codegen.functions import bits, complex, real
from xla_server.codegen.instructions.intrinsics import ARITHMETIC

_MODULES = itertools.chain.from_iterable(
    pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
    for package in (bits, complex, real)
)

FUNCTIONS: dict[str, Any] = {
    name: function
    for module in _MODULES
    for name, function in getattr(import_module(module.name), "FORMULAS", {}).items()
}
"""Functions that kernels may call."""


def instructions(computed: str, *names: str) -> list[Any]:
    """Return instructions on elements: complex types have functions of their own."""
    if computed[0] == "c":
        return [FUNCTIONS[f"{name}_{computed}"] for name in names]
    return [ARITHMETIC[name] for name in names]

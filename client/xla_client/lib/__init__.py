"""Programs' common parts, written with `xla_client.ops` and nothing else.

Use the module, not its names, some of which shadow builtins: `xla_client.lib.arithmetic.sum(x)`, or
`from xla_client.lib import arithmetic, matrix`. A module is loaded on first use. No function
broadcasts operands of different rank or size, except `numpy_broadcasting`.
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xla_client.lib import (
        activations,
        argminmax,
        arithmetic,
        bessel,
        constants,
        convolution,
        cumulative,
        einsum,
        factorizations,
        floats,
        gamma,
        incomplete,
        indexing,
        loops,
        matrix,
        numpy_broadcasting,
        pooling,
        prng,
        slicing,
        solvers,
        sorting,
        special,
    )

__all__ = [
    "activations",
    "argminmax",
    "arithmetic",
    "bessel",
    "constants",
    "convolution",
    "cumulative",
    "einsum",
    "factorizations",
    "floats",
    "gamma",
    "incomplete",
    "indexing",
    "loops",
    "matrix",
    "numpy_broadcasting",
    "pooling",
    "prng",
    "slicing",
    "solvers",
    "sorting",
    "special",
]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module 'xla_client.lib' has no attribute {name!r}", name=name)
    return importlib.import_module(f"xla_client.lib.{name}")


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__"))]

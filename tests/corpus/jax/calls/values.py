"""Arguments of the sweep over JAX: values, and groups of calls made of them.

Everything is 64 bits wide: without x64 JAX takes the 32-bit neighbour.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

Group = dict[str, tuple[Any, ...]]
"""Name -> function, then its arguments. The text behind a / distinguishes calls of one name."""

Builder = Callable[[], Group]
"""Makes a group; jax is imported when it is called."""

_RANDOM = np.random.default_rng(7)
X = _RANDOM.standard_normal((4, 6))
Y = _RANDOM.standard_normal((4, 6))
P = np.abs(_RANDOM.standard_normal((4, 6))) + 0.3
Q = np.abs(_RANDOM.standard_normal((4, 6))) + 0.6
U = _RANDOM.uniform(0.05, 0.95, (4, 6))
C = X + 1j * Y
D = Y - 0.5j * X
V = _RANDOM.standard_normal(8)
W = _RANDOM.standard_normal(8)
T = _RANDOM.standard_normal((2, 3, 4))
A = _RANDOM.standard_normal((5, 5))
B = _RANDOM.standard_normal((5, 3))
S = A @ A.T + 5 * np.eye(5)
H = np.stack([S, 2 * S + np.eye(5)])
Z = A + 1j * _RANDOM.standard_normal((5, 5))
N = _RANDOM.integers(-9, 10, (4, 6))
M = _RANDOM.integers(1, 7, (4, 6))
K = np.array([3, 1, 2, 3, 0, 1])
LOGICAL = X > 0
OTHER = Y > 0
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.0, -1.0, 2.5, -3.5, 30.0])
NANS = np.where(X > 1, np.nan, X)
IMAGES = _RANDOM.standard_normal((2, 6, 6, 4))
HEADS = _RANDOM.standard_normal((1, 4, 2, 8))


def each(module: Any, names: str, *arguments: Any, tag: str = "", **options: Any) -> Group:
    """Each of the named functions on the same arguments; `tag` goes behind their names."""
    group: Group = {}
    for name in names.split():
        function: Any = module
        for part in name.split("."):
            function = getattr(function, part)
        group[name + tag] = (_with(function, options), *arguments)
    return group


def _with(function: Callable[..., Any], options: Mapping[str, Any]) -> Callable[..., Any]:
    return lambda *arguments: function(*arguments, **options)


def reasons(table: Mapping[str, str]) -> dict[str, str]:
    """Name -> reason, of a table reason -> names."""
    return {name: reason for reason, names in table.items() for name in names.split()}


def merged(builders: Iterable[Builder]) -> Group:
    """All groups in one; raises ValueError for a name in two of them."""
    whole: Group = {}
    for build in builders:
        for name, call in build().items():
            if name in whole:
                raise ValueError(f"every call needs a name of its own, got {name} again")
            whole[name] = call
    return whole

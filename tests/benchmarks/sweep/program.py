"""A benchmark program: the text of a JAX function, with the parameters that it is called on."""

import dataclasses
import linecache
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

MAX_ELEMENTS = 2**22
"""Largest parameter and largest intermediate value of a program, in elements."""


@dataclasses.dataclass(frozen=True)
class Parameter:
    """An array argument: its type, its shape and how its elements are drawn.

    `kind` is one of `normal`, `unit` (uniform in [0, 1)), `positive` (in [0.5, 1.5)), `index`
    (integers from 0 to below `bound`), `bits` (any integer) and `definite` (symmetric positive
    definite matrices).
    """

    dtype: str
    shape: tuple[int, ...]
    kind: str = "normal"
    bound: int = 100

    def __str__(self) -> str:
        return f"{_SHORT.get(self.dtype, self.dtype)}{list(self.shape)}".replace(" ", "")

    @property
    def is_wide(self) -> bool:
        """Return whether JAX has to be run with 64 bit types for this parameter."""
        return self.dtype in ("float64", "int64", "uint64", "complex128")

    def draw(self, random: np.random.Generator) -> np.ndarray:
        """Return an array for this parameter."""
        dtype = np.dtype(getattr(ml_dtypes, self.dtype, self.dtype))
        if self.kind == "bits":
            return random.integers(0, 256, (*self.shape, dtype.itemsize), np.uint8).view(dtype)[
                ..., 0
            ]
        if self.kind == "index" or dtype.kind in "iu":
            bound = min(self.bound, np.iinfo(dtype).max + 1) if dtype.kind in "iu" else self.bound
            return random.integers(0, bound, self.shape).astype(dtype)
        if dtype.kind == "b":
            return random.integers(0, 2, self.shape).astype(dtype)
        wide: Any = np.float32 if dtype.itemsize <= 4 else np.float64
        if self.kind in ("unit", "positive"):
            return (random.random(self.shape, wide) + (self.kind == "positive") * wide(0.5)).astype(
                dtype
            )
        drawn = random.standard_normal(self.shape, wide)
        if dtype.kind == "c":
            drawn = drawn + 1j * random.standard_normal(self.shape, wide)
        if self.kind == "definite":
            size = self.shape[-1]
            drawn = drawn @ np.swapaxes(drawn, -1, -2).conj() / size + np.eye(size)
        return drawn.astype(dtype)


_SHORT = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "int32": "s32",
    "int64": "s64",
    "int8": "s8",
    "uint8": "u8",
    "uint32": "u32",
    "bool": "pred",
    "complex64": "c64",
}


@dataclasses.dataclass(frozen=True)
class Program:
    """A function of JAX as source text: assignments, then a result; parameters are p0, p1, ..."""

    family: str
    lines: tuple[str, ...]
    result: str
    parameters: tuple[Parameter, ...]

    @property
    def is_wide(self) -> bool:
        """Return whether JAX has to be run with 64 bit types."""
        return any(parameter.is_wide for parameter in self.parameters)

    @property
    def source(self) -> str:
        """The text of a function `program`."""
        names = ", ".join(f"p{number}" for number in range(len(self.parameters)))
        body = "\n".join(f"    {line}" for line in (*self.lines, f"return {self.result}"))
        return f"def program({names}):\n{body}\n"

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself."""
        namespace: dict[str, Any] = {"jax": jax, "jnp": jnp, "lax": lax}
        name = f"<{self.family}>"
        linecache.cache[name] = (len(self.source), None, self.source.splitlines(True), name)
        exec(compile(self.source, name, "exec"), namespace)
        function: Callable[..., Any] = namespace["program"]
        return function

    @property
    def description(self) -> str:
        """One line: the shapes of parameters, and the text if it is short."""
        shapes = ", ".join(str(parameter) for parameter in self.parameters[:4])
        more = f", ... {len(self.parameters)} in all" if len(self.parameters) > 4 else ""
        text = "; ".join((*self.lines, self.result))
        short = text if len(text) <= 150 else f"{text[:70]} ... {text[-75:]}"
        return f"({shapes}{more}) {short}"

    def arguments(self, seed: int) -> tuple[np.ndarray, ...]:
        """Draw the arguments, always the same ones for a seed."""
        random = np.random.default_rng(seed)
        return tuple(parameter.draw(random) for parameter in self.parameters)


def listed(*names: str) -> str:
    """Return the text of a tuple, or of the only value."""
    return names[0] if len(names) == 1 else f"({', '.join(names)})"

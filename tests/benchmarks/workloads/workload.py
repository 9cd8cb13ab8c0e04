"""A program to measure: a function of JAX with its arguments."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Workload:
    """A function that both sides compile, and its arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    @property
    def is_wide(self) -> bool:
        """True if JAX must be set to keep 64 bits."""
        return any(getattr(a, "dtype", None) in (np.float64,) for a in self.arguments)


class Draws:
    """Arrays of random numbers, the same in every run."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def f32(self, *dimensions: int, scale: float = 1.0) -> Any:
        """Normally distributed numbers."""
        return (self._random.standard_normal(dimensions) * scale).astype(np.float32)

    def s32(self, bound: int, *dimensions: int) -> Any:
        """Whole numbers from 0 to below the bound."""
        return self._random.integers(0, bound, dimensions).astype(np.int32)

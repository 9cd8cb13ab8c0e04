"""The target of a compilation: a machine, what kernels there are for it, and its tuning."""

import dataclasses
import functools
from collections.abc import Set
from typing import Protocol

from xla_contract.element_type import ElementType
from xla_server.target import capability as processor
from xla_server.target.machine import Machine
from xla_server.target.tuning import Tuning, tuning_of


class Capability(Protocol):
    """The kernels that the lowering of a platform has. `target/capability.py` is a processor's."""

    BLAS_TYPES: frozenset[ElementType]
    TILED_CONVOLUTIONS: frozenset[ElementType]
    MIN_TILED_ROW: int
    MAX_TILED_DEPTH: int
    MAX_PANEL_BYTES: int
    MIN_TAPS: int
    MIN_POINT_TAPS: int
    MIN_DEPTHWISE_FEATURES: int
    MIN_TILED_TRANSPOSE: int
    MAX_UNROLLED_ITERATIONS: int
    MAX_UNROLLED_WINDOW: int

    def product_tile(self, operands: Set[ElementType], result: ElementType) -> str | None:
        """Return the kind of register tiles that multiplies matrices of these types, if any."""

    def packs_operands(self, operands: Set[ElementType], result: ElementType) -> bool:
        """Return whether the kernel of a product packs operands, whose layout is free then."""

    def is_narrow_product(self, operands: Set[ElementType], result: ElementType) -> bool:
        """Return whether a product is the one in s32, converted to its result type."""

    def is_tiled_transpose(self, elements: int, rows: int, columns: int) -> bool:
        """Return whether tiles transpose an array, of which matrices have these sizes."""

    def is_wide_enough(self, outputs: int, groups: int) -> bool:
        """Return whether register tiles compute groups of so many output features."""


PROCESSOR: Capability = processor
"""The kernels for processors."""


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """A machine to compile for. Passes, fusion and lowering of one program have the same one."""

    machine: Machine
    tuning: Tuning
    capability: Capability = PROCESSOR

    @classmethod
    @functools.cache
    def of(cls, machine: Machine) -> "Target":
        """Return the target for a processor."""
        return cls(machine, tuning_of(machine))

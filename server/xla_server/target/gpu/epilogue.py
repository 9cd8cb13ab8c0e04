"""Epilogues: elementwise operations that GPU libraries apply to a product before they store it.

Source: the cuBLAS library's documentation, cublasLtMatmul and cublasLtEpilogue_t.
"""

import dataclasses
import enum
import math
from typing import Final

from xla_contract.types.element_type import ElementType

SCALED: Final = frozenset({ElementType.F16, ElementType.BF16, ElementType.F32, ElementType.F64})
"""Element types of products that are scaled and added to a matrix."""

ACTIVATED: Final = SCALED - {ElementType.F64}
"""Element types of products with a bias or an activation."""


class Activation(enum.Enum):
    """The function that an epilogue ends with, by its name in texts.

    Relu of NaN is 0 in the library, and so in XLA's GPU backend. Gelu is the tanh approximation.
    """

    NONE = ""
    RELU = "relu"
    GELU = "gelu"


@dataclasses.dataclass(frozen=True, slots=True)
class Epilogue:
    """activation(scale * product + weight * addend + bias), elementwise.

    The addend is a matrix of the result's shape and type, which the result overwrites; there is
    none if its weight is 0. A bias has an element for each column.
    """

    scale: float = 1.0
    weight: float = 0.0
    has_bias: bool = False
    activation: Activation = Activation.NONE

    def __str__(self) -> str:
        addend = f" + {self.weight:g} * addend" if self.weight else ""
        bias = " + bias" if self.has_bias else ""
        return f"{self.activation.value}({self.scale:g} * product{addend}{bias})"

    def problem(self, element: ElementType, batch: int) -> str | None:
        """Return the reason why no library has it for this type and batch size, or None."""
        if self == NO_EPILOGUE:
            return None
        # The library returns zeros for a scale of 0, even if operands are infinite or NaN.
        if not (self.scale and math.isfinite(self.scale) and math.isfinite(self.weight)):
            return f"an epilogue must have finite factors, not 0 of a product, got {self}"
        is_plain = not self.has_bias and self.activation is Activation.NONE
        allowed = SCALED if is_plain else ACTIVATED
        if element not in allowed:
            texts = sorted(each.text for each in allowed)
            return f"the result of an epilogue must be one of {texts}, got {element.text}"
        if self.has_bias and batch > 1:
            return f"a product with a bias must have one matrix, got {batch}"
        return None


NO_EPILOGUE: Final = Epilogue()

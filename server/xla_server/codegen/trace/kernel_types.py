"""Storage of each element type in buffers, and its computed type in kernels.

Floats narrower than f32 are computed as f32 and rounded after every operation, integers narrower
than a byte in a byte, as XLA's CPU backend does.
"""

import dataclasses
from collections.abc import Mapping

from xla_contract.types.element_type import ElementType
from xla_server.codegen.functions.bits.narrow_floats import FORMATS
from xla_server.codegen.kernel_ir.types import Type


@dataclasses.dataclass(frozen=True, slots=True)
class KernelType:
    """`storage` is the type in memory, `computed` the type of values.

    Kernel functions, None for the identity: `widen` converts a stored value to a computed one,
    `narrow` the reverse; `rounded` rounds a computed value to the nearest one that the element type
    has; `code` is `narrow` of that.
    """

    storage: str
    computed: str
    widen: str | None = None
    narrow: str | None = None
    rounded: str | None = None
    code: str | None = None

    @property
    def is_exact(self) -> bool:
        """Return whether every computed value is a value of the element type."""
        return self.rounded is None


def _small_float(element_type: ElementType) -> KernelType:
    storage, text = f"u{8 * element_type.byte_width}", element_type.text
    name = "half" if element_type is ElementType.F16 else text
    narrow = f"f32_to_{name}"
    # Rounding makes all NaNs one, while a copy keeps the code of each.
    has_many_nans = text in FORMATS and FORMATS[text].has_many_nans
    code = f"code_{text}" if has_many_nans else narrow
    return KernelType(storage, "f32", f"{name}_to_f32", narrow, f"round_{text}", code)


def _small_integer(element_type: ElementType) -> KernelType:
    storage = "i8" if element_type.is_signed_integer else "u8"
    text = element_type.text
    # Higher bits are zero in buffers, as in arrays of ml_dtypes, and the sign in computed values.
    narrow = f"low_bits_{text}"
    return KernelType(storage, storage, f"{text}_to_{storage}", narrow, f"round_{text}", narrow)


KERNEL_TYPE: Mapping[ElementType, KernelType] = {
    **{ElementType.from_dtype(kind.dtype): KernelType(kind.value, kind.value) for kind in Type},
    **{
        kind: _small_float(kind) for kind in ElementType if kind.is_floating and kind.bit_width < 32
    },
    **{
        kind: _small_integer(kind) for kind in ElementType if kind.is_integer and kind.bit_width < 8
    },
}
"""Array element type -> its KernelType."""

"""Storage of each element type in buffers, and its computed type in kernels.

Floats narrower than f32 are computed as f32 and rounded after every operation, integers narrower
than a byte in a byte, as XLA's CPU backend does.
"""

import dataclasses
from collections.abc import Mapping

from xla_contract.types.element_type import ElementType
from xla_server.codegen.kernel_ir.types import Type


@dataclasses.dataclass(frozen=True, slots=True)
class KernelType:
    """`storage` is the type in memory, `computed` the type of values.

    Functions of kernels, None if there is nothing to do: `widen` makes a stored value a computed
    one and `narrow` the reverse; `rounded` gives the computed value nearest to a computed one that
    the element type has.
    """

    storage: str
    computed: str
    widen: str | None = None
    narrow: str | None = None
    rounded: str | None = None

    @property
    def is_exact(self) -> bool:
        """Return whether every computed value is one of the element type."""
        return self.rounded is None


def _small_float(element_type: ElementType) -> KernelType:
    storage, text = f"u{8 * element_type.byte_width}", element_type.text
    name = "half" if element_type is ElementType.F16 else text
    return KernelType(storage, "f32", f"{name}_to_f32", f"f32_to_{name}", f"round_{text}")


def _small_integer(element_type: ElementType) -> KernelType:
    storage = "i8" if element_type.is_signed_integer else "u8"
    wrapped = f"round_{element_type.text}"
    # Above them buffers have zeros, as arrays of ml_dtypes do, and computed values the sign.
    return KernelType(storage, storage, wrapped, f"low_bits_{element_type.text}", wrapped)


KERNEL_TYPE: Mapping[ElementType, KernelType] = {
    **{ElementType.from_dtype(kind.dtype): KernelType(kind.value, kind.value) for kind in Type},
    **{
        kind: _small_float(kind) for kind in ElementType if kind.is_floating and kind.bit_width < 32
    },
    **{
        kind: _small_integer(kind) for kind in ElementType if kind.is_integer and kind.bit_width < 8
    },
}
"""Every element type that arrays can have."""

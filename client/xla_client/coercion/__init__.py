"""Conversions of what callers write to the contract's shapes, element types, numbers and values.

`checked` converts the arguments of public functions as their annotations say. Modules of the client
that take a shape, an element type or a value themselves call `as_shape`, `as_element_type` and
`as_literal`.
"""

from xla_client.coercion.literals import as_literal
from xla_client.coercion.shapes import ShapeLike, as_element_type, as_shape

__all__ = ["ShapeLike", "as_element_type", "as_literal", "as_shape"]

"""reduce-window: the elements in each position of a sliding window, reduced by a computation.

Semantics: XLA's ReduceWindow, variadic, with strides, padding and both dilations.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.ops.attribute_fields import Record
from xla_contract.ops.reduction.reduce import split_inputs
from xla_contract.ops.rules import any_dynamic
from xla_contract.ops.signature import check_reducer, exactly, one_or_tuple
from xla_contract.types.dimension_numbers import Window
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class ReduceWindowAttributes:
    """The window, with one dimension for each dimension of the arrays."""

    window: Annotated[Window, Record("window", Window)]


def infer_reduce_window(
    operands: Sequence[Shape], attributes: ReduceWindowAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """Return one element per position of the window; a tuple if several arrays are reduced."""
    arrays, initial = split_inputs(operands)
    (reducer,) = exactly(called, ("the reducer",))
    types = check_reducer("reducer", reducer, initial, [a.element_type for a in arrays])
    sizes = attributes.window.output_sizes(arrays[0].dimensions)
    flags = any_dynamic(arrays)
    return one_or_tuple([Shape.array(element, sizes, None, flags) for element in types])

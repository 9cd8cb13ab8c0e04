"""Table of elementwise operations, data movement, and operations on values, tuples and effects."""

from xla_contract.ops.collectives import replica_id
from xla_contract.ops.control import constant, custom_call, ordering, parameter
from xla_contract.ops.control import tuple as tuple_
from xla_contract.ops.definition import OpDefinition
from xla_contract.ops.elementwise import (
    bitcast_convert,
    compare,
    convert,
    copy,
    elementwise,
    reduce_precision,
    stochastic_convert,
)
from xla_contract.ops.feeds import infeed, outfeed
from xla_contract.ops.indexing import dynamic_slice
from xla_contract.ops.shaping import (
    bitcast,
    broadcast,
    concatenate,
    dynamic_reshape,
    get_dimension_size,
    iota,
    pad,
    reshape,
    reverse,
    set_dimension_size,
    transpose,
)
from xla_contract.ops.shaping import slice as slice_

ELEMENTARY: tuple[OpDefinition, ...] = (
    *elementwise.DEFINITIONS,
    bitcast.DEFINITION,
    bitcast_convert.DEFINITION,
    broadcast.DEFINITION,
    compare.DEFINITION,
    concatenate.DEFINITION,
    constant.DEFINITION,
    convert.DEFINITION,
    copy.DEFINITION,
    custom_call.DEFINITION,
    dynamic_reshape.DEFINITION,
    *dynamic_slice.DEFINITIONS,
    get_dimension_size.DEFINITION,
    infeed.DEFINITION,
    iota.DEFINITION,
    *ordering.DEFINITIONS,
    outfeed.DEFINITION,
    pad.DEFINITION,
    parameter.DEFINITION,
    reduce_precision.DEFINITION,
    *replica_id.DEFINITIONS,
    reshape.DEFINITION,
    reverse.DEFINITION,
    set_dimension_size.DEFINITION,
    slice_.DEFINITION,
    stochastic_convert.DEFINITION,
    transpose.DEFINITION,
    *tuple_.DEFINITIONS,
)
"""Every definition of this table; `definitions` joins the tables."""

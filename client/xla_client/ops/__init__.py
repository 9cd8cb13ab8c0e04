"""One function per operation, under XlaBuilder's names in Python style.

A name that is a Python keyword has an underscore behind it. Some names are those of builtins, so
import the module, `from xla_client import ops`, and not its names. XlaBuilder itself does not have
`batch_dot`, `matmul`, `roll`, `floor_div` and `floor_mod`.

Functions convert their arguments. A shape is a `Shape` or text ("f32[2,3]"), an element type an
`ElementType`, a name or a numpy type. Numbers beside Ops become constants of the Op's element type.
One Op, int or computation stands for a sequence of one; a computation may be a Python function.
Any other type of argument raises ArgumentTypeError, which names the function and the parameter.
Operands that do not fit the operation raise ShapeError.
"""

from typing import TYPE_CHECKING, NoReturn

from xla_client.ops.collectives import (
    all_gather,
    all_reduce,
    all_reduce_tuple,
    all_to_all,
    all_to_all_tuple,
    collective_broadcast,
    collective_permute,
    cross_replica_sum,
    ragged_all_to_all,
    reduce_scatter,
)
from xla_client.ops.contraction.contraction import (
    batch_dot,
    dot,
    dot_general,
    matmul,
    ragged_dot,
    scaled_dot,
)
from xla_client.ops.contraction.convolution import (
    conv,
    conv_general,
    conv_general_dilated,
    conv_with_general_dimensions,
    conv_with_general_padding,
)
from xla_client.ops.control import (
    call,
    composite_call,
    conditional,
    custom_call,
    get_tuple_element,
    optimization_barrier,
    scan,
    tuple,
    while_,
)
from xla_client.ops.elementwise import elementwise
from xla_client.ops.elementwise.comparison import (
    compare,
    eq,
    eq_total_order,
    ge,
    ge_total_order,
    gt,
    gt_total_order,
    le,
    le_total_order,
    lt,
    lt_total_order,
    ne,
    ne_total_order,
)
from xla_client.ops.elementwise.conversion import (
    bitcast_convert_type,
    convert_element_type,
    reduce_precision,
    stochastic_convert_type,
)
from xla_client.ops.elementwise.elementwise import *  # noqa: F403
from xla_client.ops.elementwise.flooring import floor_div, floor_mod
from xla_client.ops.elementwise.selection import clamp, select
from xla_client.ops.feeds import (
    infeed,
    infeed_with_token,
    outfeed,
    outfeed_with_token,
    recv,
    recv_from_host,
    recv_with_token,
    send,
    send_to_host,
    send_with_token,
)
from xla_client.ops.indexing import gather, scatter
from xla_client.ops.linear_algebra import cholesky, fft, triangular_solve
from xla_client.ops.random import rng_bit_generator, rng_normal, rng_uniform
from xla_client.ops.reduction import standard_reductions
from xla_client.ops.reduction.normalization import (
    batch_norm_grad,
    batch_norm_inference,
    batch_norm_training,
)
from xla_client.ops.reduction.reduction import map, reduce, reduce_all, sort, top_k
from xla_client.ops.reduction.windows import (
    reduce_window,
    reduce_window_with_general_padding,
    select_and_scatter,
    select_and_scatter_with_general_padding,
)
from xla_client.ops.shaping.shaping import (
    broadcast,
    broadcast_in_dim,
    collapse,
    dynamic_reshape,
    get_dimension_size,
    remove_dynamic_dimension,
    reshape,
    rev,
    roll,
    set_dimension_size,
    transpose,
)
from xla_client.ops.shaping.slicing import (
    concat_in_dim,
    dynamic_slice,
    dynamic_update_slice,
    pad,
    pad_in_dim,
    slice,
    slice_in_dim,
)
from xla_client.ops.shaping.subscript import subscript
from xla_client.programs import operators
from xla_client.programs.arguments.familiar_names import FAMILIAR_NAMES

__all__ = [
    "all_gather",
    "all_reduce",
    "all_reduce_tuple",
    "all_to_all",
    "all_to_all_tuple",
    "batch_dot",
    "batch_norm_grad",
    "batch_norm_inference",
    "batch_norm_training",
    "bitcast_convert_type",
    "broadcast",
    "broadcast_in_dim",
    "call",
    "cholesky",
    "clamp",
    "collapse",
    "collective_broadcast",
    "collective_permute",
    "compare",
    "composite_call",
    "concat_in_dim",
    "conditional",
    "conv",
    "conv_general",
    "conv_general_dilated",
    "conv_with_general_dimensions",
    "conv_with_general_padding",
    "convert_element_type",
    "cross_replica_sum",
    "custom_call",
    "dot",
    "dot_general",
    "dynamic_reshape",
    "dynamic_slice",
    "dynamic_update_slice",
    "eq",
    "eq_total_order",
    "fft",
    "floor_div",
    "floor_mod",
    "gather",
    "ge",
    "ge_total_order",
    "get_dimension_size",
    "get_tuple_element",
    "gt",
    "gt_total_order",
    "infeed",
    "infeed_with_token",
    "le",
    "le_total_order",
    "lt",
    "lt_total_order",
    "map",
    "matmul",
    "ne",
    "ne_total_order",
    "optimization_barrier",
    "outfeed",
    "outfeed_with_token",
    "pad",
    "pad_in_dim",
    "ragged_all_to_all",
    "ragged_dot",
    "recv",
    "recv_from_host",
    "recv_with_token",
    "reduce",
    "reduce_all",
    "reduce_precision",
    "reduce_scatter",
    "reduce_window",
    "reduce_window_with_general_padding",
    "remove_dynamic_dimension",
    "reshape",
    "rev",
    "rng_bit_generator",
    "rng_normal",
    "rng_uniform",
    "roll",
    "scaled_dot",
    "scan",
    "scatter",
    "select",
    "select_and_scatter",
    "select_and_scatter_with_general_padding",
    "send",
    "send_to_host",
    "send_with_token",
    "set_dimension_size",
    "slice",
    "slice_in_dim",
    "sort",
    "stochastic_convert_type",
    "top_k",
    "transpose",
    "triangular_solve",
    "tuple",
    "while_",
]
__all__ += elementwise.__all__

operators.provide(
    operators.Functions(
        operations={name: globals()[name] for name in __all__},
        reductions={
            name: getattr(standard_reductions, name)
            for name in ("all", "any", "max", "mean", "min", "prod", "sum")
        },
        subscript=subscript,
    )
)

if not TYPE_CHECKING:  # Type checkers shall know of no other attribute.

    def __getattr__(name: str) -> NoReturn:
        found = FAMILIAR_NAMES.get(name)
        advice = f"; the operation is {found}" if found else ""
        raise AttributeError(
            f"module 'xla_client.ops' has no attribute {name!r}{advice}", name=name
        )

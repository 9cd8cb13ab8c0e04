"""The table of trace rules, by opcode: all operations that kernels are traced through."""

from collections.abc import Mapping

from xla_contract.types.opcode import Opcode
from xla_server.codegen.trace import bits, elementwise, movement, reductions
from xla_server.codegen.trace.contraction import trace_convolution, trace_dot
from xla_server.codegen.trace.tracer import Rule
from xla_server.ir.analysis.index_maps import MAPPED
from xla_server.ops.elementwise.elementwise_table import ROWS

RULES: Mapping[Opcode, Rule] = {
    **dict.fromkeys(ROWS, elementwise.trace_elementwise),
    **dict.fromkeys(MAPPED, movement.trace_mapped),
    Opcode.BITCAST_CONVERT: bits.trace_bitcast_convert,
    Opcode.COMPARE: elementwise.trace_compare,
    Opcode.CONCATENATE: movement.trace_concatenate,
    Opcode.CONSTANT: elementwise.trace_constant,
    Opcode.CONVERT: elementwise.trace_convert,
    Opcode.CONVOLUTION: trace_convolution,
    Opcode.COPY: lambda t, i, index, number: t.operand(i, 0, index),
    Opcode.DOT: trace_dot,
    Opcode.DYNAMIC_SLICE: movement.trace_dynamic_slice,
    Opcode.DYNAMIC_UPDATE_SLICE: movement.trace_dynamic_update_slice,
    Opcode.FUSION: elementwise.trace_fusion,
    Opcode.GATHER: movement.trace_gather,
    Opcode.IOTA: movement.trace_iota,
    Opcode.MAP: elementwise.trace_map,
    Opcode.PAD: movement.trace_pad,
    Opcode.PARAMETER: elementwise.trace_parameter,
    Opcode.REDUCE: reductions.trace_reduce,
    Opcode.REDUCE_PRECISION: elementwise.trace_reduce_precision,
    Opcode.REDUCE_WINDOW: reductions.trace_reduce_window,
    Opcode.SELECT: elementwise.trace_select,
    Opcode.STOCHASTIC_CONVERT: bits.trace_stochastic_convert,
}
"""The rule of each opcode that a loop nest can compute an element of."""

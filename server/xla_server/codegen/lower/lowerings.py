"""Lowerings of all opcodes."""

from collections.abc import Mapping

from xla_contract.types.opcode import Opcode
from xla_server.codegen.lower.contraction.convolution import lower_convolution
from xla_server.codegen.lower.contraction.dot import lower_dot
from xla_server.codegen.lower.control.control import CONTROL
from xla_server.codegen.lower.fourier.fft import lower_fft
from xla_server.codegen.lower.fusion import lower_fusion
from xla_server.codegen.lower.host import (
    HOST_OPCODES,
    NUMBERS,
    lower_collective,
    lower_custom_call,
    lower_host,
)
from xla_server.codegen.lower.indexing.scatter import lower_scatter
from xla_server.codegen.lower.indexing.sort import lower_sort, lower_topk
from xla_server.codegen.lower.linear_algebra.triangular import (
    lower_cholesky,
    lower_triangular_solve,
)
from xla_server.codegen.lower.loop_nests.concatenate import lower_concatenate
from xla_server.codegen.lower.loop_nests.loop_lowering import lower_dynamic_update_slice, lower_loop
from xla_server.codegen.lower.lowering import Lower
from xla_server.codegen.lower.movement.transpose import lower_transpose
from xla_server.codegen.lower.native_collectives import (
    NATIVE_COLLECTIVES,
    lower_native_collective,
    lower_number,
)
from xla_server.codegen.lower.random import lower_rng_bit_generator
from xla_server.codegen.lower.reduction.scan import lower_reduce_window
from xla_server.codegen.lower.reduction.select_and_scatter import lower_select_and_scatter
from xla_server.codegen.trace.rules import RULES
from xla_server.ops.collectives.exchanges import EXCHANGES

LOWERINGS: Mapping[Opcode, Lower] = {
    **{opcode: lower_loop for opcode in RULES if opcode is not Opcode.PARAMETER},
    **dict.fromkeys(HOST_OPCODES, lower_host),
    **dict.fromkeys(NUMBERS, lower_number),
    **dict.fromkeys(EXCHANGES, lower_collective),
    **CONTROL,
    **dict.fromkeys(NATIVE_COLLECTIVES, lower_native_collective),
    Opcode.CHOLESKY: lower_cholesky,
    Opcode.CONCATENATE: lower_concatenate,
    Opcode.CONVOLUTION: lower_convolution,
    Opcode.CUSTOM_CALL: lower_custom_call,
    Opcode.DOT: lower_dot,
    Opcode.DYNAMIC_UPDATE_SLICE: lower_dynamic_update_slice,
    Opcode.FFT: lower_fft,
    Opcode.FUSION: lower_fusion,
    Opcode.REDUCE_WINDOW: lower_reduce_window,
    Opcode.RNG_BIT_GENERATOR: lower_rng_bit_generator,
    Opcode.SCATTER: lower_scatter,
    Opcode.SELECT_AND_SCATTER: lower_select_and_scatter,
    Opcode.SORT: lower_sort,
    Opcode.TOPK: lower_topk,
    Opcode.TRANSPOSE: lower_transpose,
    Opcode.TRIANGULAR_SOLVE: lower_triangular_solve,
}
"""The lowering of each opcode that this platform runs. Opcodes without an entry of their own but
with a trace rule for an element become loop nests."""

_DYNAMIC = "programs are compiled at known sizes, where size-specialisation leaves none"

NOT_LOWERED: Mapping[Opcode, str] = {
    Opcode.DYNAMIC_RESHAPE: _DYNAMIC,
    Opcode.PARAMETER: "parameters are the values a computation is called with",
    Opcode.SET_DIMENSION_SIZE: _DYNAMIC,
    Opcode.SHUFFLE: "the operation has no public semantics to follow",
}
"""Reasons why the remaining opcodes that no pass expands have no lowering."""

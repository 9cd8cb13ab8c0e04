"""Lowerings of all opcodes for a GPU."""

from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.types.opcode import Opcode
from xla_server.codegen.gpu.lower.concatenate import lower_concatenate, lower_fusion
from xla_server.codegen.gpu.lower.contraction.convolution import lower_convolution
from xla_server.codegen.gpu.lower.contraction.integer_dot import lower_product
from xla_server.codegen.gpu.lower.fft import lower_fft
from xla_server.codegen.gpu.lower.indexing.scatter import lower_scatter
from xla_server.codegen.gpu.lower.indexing.sort import lower_sort, lower_topk
from xla_server.codegen.gpu.lower.linear_algebra.lapack import lower_custom_call
from xla_server.codegen.gpu.lower.linear_algebra.triangular import (
    lower_cholesky,
    lower_triangular_solve,
)
from xla_server.codegen.gpu.lower.loop_nests.loop_lowering import (
    lower_dynamic_update_slice,
    lower_loop,
)
from xla_server.codegen.gpu.lower.random import lower_rng_bit_generator
from xla_server.codegen.gpu.lower.reduction.scan import lower_running_window
from xla_server.codegen.gpu.lower.reduction.select_and_scatter import lower_select_and_scatter
from xla_server.codegen.gpu.lower.thunks.through_host import ThroughHost
from xla_server.codegen.gpu.lower.while_loop import lower_while
from xla_server.codegen.lower.control.control import CONTROL
from xla_server.codegen.lower.host import HOST_OPCODES, NUMBERS, lower_collective, lower_host
from xla_server.codegen.lower.lowering import Lower, Lowering, Tree
from xla_server.codegen.trace.rules import RULES
from xla_server.fusion.analysis.windows import running_axis
from xla_server.ir.module import HloInstruction
from xla_server.ops.collectives.exchanges import EXCHANGES


def lower_reduce_window(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add scans for a running window, else a loop over each window."""
    is_loop = running_axis(i) is None or not i.operands[0].shape.element_count
    return lower_loop(lowering, i) if is_loop else lower_running_window(lowering, i)


CUDA_LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType(
    {
        **{opcode: lower_loop for opcode in RULES if opcode is not Opcode.PARAMETER},
        **dict.fromkeys(HOST_OPCODES | NUMBERS, ThroughHost(lower_host)),
        **dict.fromkeys(EXCHANGES, ThroughHost(lower_collective)),
        **CONTROL,
        Opcode.CHOLESKY: lower_cholesky,
        Opcode.CONCATENATE: lower_concatenate,
        Opcode.CONVOLUTION: lower_convolution,
        Opcode.CUSTOM_CALL: lower_custom_call,
        Opcode.DOT: lower_product,
        Opcode.DYNAMIC_UPDATE_SLICE: lower_dynamic_update_slice,
        Opcode.FFT: lower_fft,
        Opcode.FUSION: lower_fusion,
        Opcode.REDUCE_WINDOW: lower_reduce_window,
        Opcode.RNG_BIT_GENERATOR: lower_rng_bit_generator,
        Opcode.SCATTER: lower_scatter,
        Opcode.SELECT_AND_SCATTER: lower_select_and_scatter,
        Opcode.SORT: lower_sort,
        Opcode.TOPK: lower_topk,
        Opcode.TRIANGULAR_SOLVE: lower_triangular_solve,
        Opcode.WHILE: lower_while,
    }
)
"""The lowering of each opcode on a GPU. Opcodes without an entry of their own but with a trace rule
for an element become loop nests. Opcodes without a lowering are those of processors
(lower/lowerings.py)."""

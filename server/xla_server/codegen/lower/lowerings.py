"""How each opcode becomes rows of code."""

from collections.abc import Mapping
from types import MappingProxyType

from xla_contract.types.opcode import Opcode
from xla_server.codegen.lower.concatenate import CONCATENATE_LOWERINGS
from xla_server.codegen.lower.control import CONTROL_LOWERINGS
from xla_server.codegen.lower.convolution import CONVOLUTION_LOWERINGS
from xla_server.codegen.lower.dot import DOT_LOWERINGS
from xla_server.codegen.lower.fft import FFT_LOWERINGS
from xla_server.codegen.lower.fusion import FUSION_LOWERINGS
from xla_server.codegen.lower.host import HOST_LOWERINGS
from xla_server.codegen.lower.linear_algebra import LINEAR_ALGEBRA_LOWERINGS
from xla_server.codegen.lower.loops import LOOP_LOWERINGS
from xla_server.codegen.lower.lowering import Lower
from xla_server.codegen.lower.random import RANDOM_LOWERINGS
from xla_server.codegen.lower.scan import SCAN_LOWERINGS
from xla_server.codegen.lower.scatter import SCATTER_LOWERINGS
from xla_server.codegen.lower.select_and_scatter import SELECT_AND_SCATTER_LOWERINGS
from xla_server.codegen.lower.sort import SORT_LOWERINGS
from xla_server.codegen.lower.transpose import TRANSPOSE_LOWERINGS

LOWERINGS: Mapping[Opcode, Lower] = MappingProxyType(
    {
        **LOOP_LOWERINGS,
        **CONCATENATE_LOWERINGS,
        **FUSION_LOWERINGS,
        **TRANSPOSE_LOWERINGS,
        **DOT_LOWERINGS,
        **CONVOLUTION_LOWERINGS,
        **CONTROL_LOWERINGS,
        **HOST_LOWERINGS,
        **SCATTER_LOWERINGS,
        **SORT_LOWERINGS,
        **SCAN_LOWERINGS,
        **SELECT_AND_SCATTER_LOWERINGS,
        **RANDOM_LOWERINGS,
        **FFT_LOWERINGS,
        **LINEAR_ALGEBRA_LOWERINGS,
    }
)
"""The lowering of each opcode that this platform runs."""

EXPANDED: Mapping[Opcode, str] = MappingProxyType(
    {
        Opcode.ASYNC_DONE: "collective-expander",
        Opcode.ASYNC_START: "collective-expander",
        Opcode.ASYNC_UPDATE: "collective-expander",
        Opcode.BATCH_NORM_GRAD: "batch-norm-expander",
        Opcode.BATCH_NORM_INFERENCE: "batch-norm-expander",
        Opcode.BATCH_NORM_TRAINING: "batch-norm-expander",
        Opcode.BITCAST: "bitcast-expander",
        Opcode.COPY_DONE: "collective-expander",
        Opcode.COPY_START: "collective-expander",
        Opcode.GET_DIMENSION_SIZE: "static-sizes",
        Opcode.PARTITION_ID: "collective-expander",
        Opcode.RAGGED_DOT: "ragged-dot-expander",
        Opcode.REPLICA_ID: "collective-expander",
        Opcode.RNG: "rng-expander",
        Opcode.SCALED_DOT: "scaled-dot-expander",
        Opcode.SCAN: "scan-expander",
    }
)
"""Opcodes that a pass writes out in terms of others, with the pass's name."""

_DYNAMIC = "programs are compiled at known sizes, where size-specialisation leaves none"

NOT_LOWERED: Mapping[Opcode, str] = MappingProxyType(
    {
        Opcode.DYNAMIC_RESHAPE: _DYNAMIC,
        Opcode.PARAMETER: "parameters are the values a computation is called with",
        Opcode.SET_DIMENSION_SIZE: _DYNAMIC,
        Opcode.SHUFFLE: "the operation has no public semantics to follow",
    }
)
"""Why each remaining opcode has no lowering. With the tables above it covers every opcode."""

"""Table of operations that contract, reduce, gather and scatter, or call computations."""

from xla_contract.ops.contraction import convolution, dot, ragged_dot, scaled_dot
from xla_contract.ops.control import call, conditional, fusion, while_loop
from xla_contract.ops.definition import OpDefinition
from xla_contract.ops.elementwise import map
from xla_contract.ops.indexing import gather, scatter, sort, topk
from xla_contract.ops.linear_algebra import cholesky, fft, triangular_solve
from xla_contract.ops.random import rng, rng_bit_generator, rng_get_and_update_state
from xla_contract.ops.reduction import batch_norm, reduce, reduce_window, scan, select_and_scatter

COMPOUND: tuple[OpDefinition, ...] = (
    dot.DEFINITION,
    ragged_dot.DEFINITION,
    convolution.DEFINITION,
    reduce.DEFINITION,
    reduce_window.DEFINITION,
    select_and_scatter.DEFINITION,
    while_loop.DEFINITION,
    conditional.DEFINITION,
    call.DEFINITION,
    map.DEFINITION,
    fusion.DEFINITION,
    sort.DEFINITION,
    gather.DEFINITION,
    scatter.DEFINITION,
    scaled_dot.DEFINITION,
    scan.DEFINITION,
    rng.DEFINITION,
    rng_bit_generator.DEFINITION,
    rng_get_and_update_state.DEFINITION,
    *batch_norm.DEFINITIONS,
    cholesky.DEFINITION,
    triangular_solve.DEFINITION,
    fft.DEFINITION,
    topk.DEFINITION,
)

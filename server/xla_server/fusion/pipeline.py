"""The fusion passes, in their order."""

from xla_server.fusion.activation_masks import ActivationMasks
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.fusion.multi_output_fusion import MultiOutputFusion
from xla_server.fusion.output_fusion import OutputFusion
from xla_server.fusion.product_epilogues import ProductEpilogues
from xla_server.fusion.recomputation_guard import CostModel, RecomputationGuard
from xla_server.fusion.update_barriers import UpdateBarriers
from xla_server.passes.expand.optimization_barrier_expander import OptimizationBarrierExpander
from xla_server.passes.framework.fixpoint import Pass
from xla_server.passes.scheduling.in_place_order import InPlaceOrder
from xla_server.target.target import Target


def fusions(target: Target, cost_model: CostModel) -> tuple[Pass, ...]:
    """Return the steps after the pipeline of passes. Programs also compile without them."""
    # Before loop fusion takes the epilogues of products.
    epilogues = (ActivationMasks(), ProductEpilogues()) if target.capability.ENDS_PRODUCTS else ()
    return (
        # Before fusion: values that it stores cannot be fused.
        UpdateBarriers(target),
        *epilogues,
        LoopFusion(target),
        # After loop fusion, as an epilogue of a product is a fused loop.
        OutputFusion(target, producers=target.capability.EPILOGUES),
        # After output fusion, as a loop with several results is no epilogue.
        MultiOutputFusion(target),
        # After the loop nests, whose evaluations it counts, are complete.
        RecomputationGuard(cost_model),
        # After fusion, for which the barriers were made.
        OptimizationBarrierExpander(),
        # Last, as later passes would change the order.
        InPlaceOrder(),
    )

"""The passes that decide what is one kernel, in their order."""

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
    """Return what runs after the pipeline of passes. Programs also compile without any of them."""
    # Before loops take in what is done to elements of products.
    epilogues = (ActivationMasks(), ProductEpilogues()) if target.capability.ENDS_PRODUCTS else ()
    return (
        # What it stores cannot be fused.
        UpdateBarriers(target),
        *epilogues,
        LoopFusion(target),
        # After loops are whole, as the epilogue of a product is one of them.
        OutputFusion(target, producers=target.capability.EPILOGUES),
        # A loop with several results is no epilogue.
        MultiOutputFusion(target),
        # Counts loop nests, which are complete now.
        RecomputationGuard(cost_model),
        # Barriers have kept apart what is not to be fused.
        OptimizationBarrierExpander(),
        # Last, as an order that nothing changes any more.
        InPlaceOrder(),
    )

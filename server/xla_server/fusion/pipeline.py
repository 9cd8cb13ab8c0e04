"""The passes that decide what is one kernel, in their order."""

from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.fusion.multi_output_fusion import MultiOutputFusion
from xla_server.fusion.output_fusion import OutputFusion
from xla_server.passes.fixpoint import Pass
from xla_server.passes.in_place_order import InPlaceOrder

FUSIONS: tuple[Pass, ...] = (
    LoopFusion(),
    # After loops are whole, as the tail of a product is one of them.
    OutputFusion(),
    # A loop with several results is no tail.
    MultiOutputFusion(),
    # Last, as an order that nothing changes any more.
    InPlaceOrder(),
)
"""What is run after the pipeline of passes. Programs also compile without any of them."""

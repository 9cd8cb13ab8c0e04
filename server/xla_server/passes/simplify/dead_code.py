"""Dead code elimination."""

import dataclasses

from xla_server.ir.module import HloModule
from xla_server.passes.framework.editor import drop_uncalled, rearrange


@dataclasses.dataclass(frozen=True)
class DeadCode:
    """Drops instructions without users or side effects, and computations without callers."""

    name: str = "dce"

    def apply(self, module: HloModule) -> bool:
        """Drop dead code everywhere; return whether there was any."""
        before = [len(computation.instructions) for computation in module.computations]
        for computation in module.computations:
            rearrange(computation)
        # Last, as a dropped instruction may have been the only caller.
        drop_uncalled(module)
        return before != [len(computation.instructions) for computation in module.computations]

"""Programs whose participants meet, three of them unless a test says otherwise."""

import numpy as np

from tests.corpus.hlo_programs import loop
from xla_contract.types.devices.device_grid import DeviceGrid

GRID = DeviceGrid(3, 1)
X = np.arange(1, 5, dtype=np.float32)
EACH = [[X * (number + 1)] for number in range(3)]


def reducing(
    root: str = "all-reduce(x), replica_groups={{0,1,2}}, to_apply=fold",
    kind: str = "f32",
    fold: str = "add(a, b)",
    size: int = 4,
    within: str = "",
) -> str:
    """The program of one collective; `within` is the type that its reducer computes in."""
    within = within or kind
    result = size // 3 if "reduce-scatter" in root else size
    return f"""HloModule reducing
fold {{ a = {within}[] parameter(0)
  b = {within}[] parameter(1)
  {"" if "ROOT" in fold else "ROOT "}c = {within}[] {fold} }}
ENTRY e {{ x = {kind}[{size}] parameter(0)
  ROOT r = {kind}[{result}] {root} }}
"""


LOOP = loop(
    "f32[4]",
    """sum = f32[4] all-reduce(v), replica_groups={{0,1,2}}, to_apply=fold
  third = f32[] constant(0.25)
  thirds = f32[4] broadcast(third), dimensions={}
  new = f32[4] multiply(sum, thirds)""",
    called="""fold { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }""",
)

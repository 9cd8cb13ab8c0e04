import numpy as np

from tests.checked_evaluation import evaluate_checked
from tests.corpus.hlo_text import parse_hlo, print_hlo
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify

TEXT = """
HloModule steps
body { a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  ROOT sum = f32[4] add(a, b) }, execution_thread="other"
ENTRY main { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  start = ((f32[4], f32[4]), f32[4], u32[]) async-start(x, y), async_execution_thread="other",
    calls=body
  update = ((f32[4], f32[4]), f32[4], u32[]) async-update(start)
  ROOT done = f32[4] async-done(update) }
"""


def test_the_computation_is_called() -> None:
    proto = parse_hlo(TEXT)
    module = import_module(proto)
    verify(module)
    x = np.arange(4, dtype=np.float32)
    found = evaluate_checked(module, [x, x + 1])
    np.testing.assert_array_equal(found, 2 * x + 1)  # type: ignore[arg-type]
    assert print_hlo(export_module(module)) == print_hlo(proto)

import numpy as np

from tests.checked_evaluation import evaluate_checked
from tests.corpus.hlo_text import parse_hlo
from xla_server.ir.importer import import_module


def test_memory_is_read_under_the_layouts() -> None:
    module = import_module(
        parse_hlo("""HloModule m
ENTRY e { a = f32[2,3]{0,1} parameter(0)
  ROOT r = s32[3,2,1]{2,1,0} bitcast(a) }""")
    )
    numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
    result = evaluate_checked(module, [numbers])
    np.testing.assert_array_equal(result, numbers.view(np.int32).T.reshape(3, 2, 1))

"""Rows that only Python can do."""

import numpy as np

from tests.unit.codegen.compiled import built, on_cpu
from xla_client import ops
from xla_contract.types.shape import Shape
from xla_server.backends.compiled.cpu import Cpu
from xla_server.custom_calls.target_registry import CustomCallRegistry


def test_a_function_gets_a_reshaped_operand_in_its_own_shape() -> None:
    registry = CustomCallRegistry()
    registry.register_function("rows", lambda x: x.sum(1))
    x = np.arange(12, dtype=np.float32)
    module = built(
        lambda flat: ops.custom_call([ops.reshape(flat, (3, 4))], "rows", Shape.parse("f32[3]{0}")),
        [x],
    )
    (result,) = on_cpu(module, [x], Cpu(custom_calls=registry))
    np.testing.assert_array_equal(result, [6, 22, 38])

import numpy as np

from tests.unit.codegen.compiled import built, interpreted, on_cpu
from xla_client import ops
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.lower.lowering import kernels_of


def test_a_clamp_is_one_function_and_broadcasts_scalar_bounds() -> None:
    arguments = [
        np.float32(-1),
        np.array([[-3, np.nan, 1e-40], [0.5, -0.0, 9]], np.float32),
        np.array([[1, 1, 1], [-2, 1, 2]], np.float32),
    ]
    module = built(ops.clamp, arguments)
    (kernel,) = kernels_of(compile_module(module).code)
    assert kernel.source.count("clamp(") == 1
    assert "maximum" not in kernel.source
    for (result,) in (on_cpu(module, arguments), interpreted(module, arguments)):
        np.testing.assert_array_equal(result, np.float32([[-1, np.nan, 0], [-2, -0.0, 2]]))
        assert np.signbit(result[1, 1])

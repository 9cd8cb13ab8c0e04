"""Custom calls of a real server: built in, unknown, and of an operator's module."""

from pathlib import Path

import numpy as np
import pytest
from grpc import StatusCode

import xla_client
from tests.corpus.jax.programs import lower
from tests.e2e import modules
from tests.e2e.process import Raw, refused, start_server
from xla_contract.stubs import xla_pb2

OPERATOR = """
def register(registry):
    registry.register_function("doubled", lambda x: x + x, "(f32[3]) -> f32[3]")
"""


def _calls(target):
    main = modules.Computation("main", 1)
    x = main.parameter(0, "f32[3]")
    main.add("custom-call", "f32[3]", [x], custom_call_target=target)
    return modules.module(main)


def test_an_unknown_target_is_refused_when_compiling(raw):
    message = refused(StatusCode.UNIMPLEMENTED, raw.compile, _calls("Shardin"))
    assert "custom-call %custom-call" in message
    assert '"Shardin" is not known to this server; near it are Sharding' in message


def test_an_operator_s_module_adds_targets(tmp_path: Path):
    (tmp_path / "operator_calls.py").write_text(OPERATOR)
    environment = {"PYTHONPATH": str(tmp_path)}
    flags = ("--custom-calls", "operator_calls")
    with start_server(tmp_path, *flags, environment=environment) as server:
        raw = Raw(server.address)
        handle = raw.compile(_calls("doubled"))
        arguments = [raw.upload(np.float32([1, 2, 3]))]
        answer = raw.Execute(xla_pb2.ExecuteRequest(handle=handle, arguments=arguments))
        assert raw.download(answer.output).f32s == [2, 4, 6]
        raw.close()


@pytest.mark.parametrize("name", ["no_such_module", "json"])
def test_a_module_that_does_not_register_stops_the_server(tmp_path: Path, name: str):
    environment = {"XLA_SERVER_CUSTOM_CALLS": name}
    with (
        pytest.raises(AssertionError, match=f"custom_calls: module {name}: "),
        start_server(tmp_path, environment=environment),
    ):
        pass


def test_jax_s_linear_algebra_over_the_wire():
    import jax.numpy as jnp

    matrices = np.random.default_rng(0).standard_normal((2, 4, 4)).astype(np.float32)
    computation = xla_client.Computation.from_serialized(lower(jnp.linalg.inv, matrices))
    with xla_client.Local() as client:
        inverse = client.compile(computation).run(matrices)
    np.testing.assert_allclose(inverse @ matrices, np.eye(4) + 0 * matrices, atol=1e-4)

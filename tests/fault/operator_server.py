"""A server with functions of its operator, which programs call by name."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.process import ServerProcess, start_server
from tests.fault.programs import ARRAY
from xla_client import Builder, Computation, ops

OPERATOR = """
import pathlib, threading, time

def register(registry):
    signature = "(f32[65536]) -> f32[65536]"
    registry.register_function("noted", noted, signature)
    registry.register_function("stuck", stuck, signature)
    registry.register_function("held", held, signature)

def noted(x):
    pathlib.Path(__file__).with_name("note").write_text(str(x[0]))
    return x

def stuck(x):
    threading.Event().wait()

def held(x):
    while not pathlib.Path(__file__).with_name("go").exists():
        time.sleep(0.01)
    return x + x
"""
"""Functions that hold the thread that calls them."""


def calling(name: str) -> Computation:
    """A program that calls one of them with its argument."""
    builder = Builder(name)
    x = builder.parameter(0, ARRAY)
    return builder.build(ops.custom_call([x], name, ARRAY, has_side_effect=True))


@contextlib.contextmanager
def operator_s_server(directory: Path, *flags: str) -> Iterator[ServerProcess]:
    """A server that has them; `held` ends once there is a file `go` in the directory."""
    (directory / "operator_calls.py").write_text(OPERATOR)
    paths = os.pathsep.join([str(directory), os.environ.get("PYTHONPATH", "")])
    flags += ("--platform", "interpreter", "--custom-calls", "operator_calls")
    with start_server(directory, *flags, environment={"PYTHONPATH": paths}) as server:
        yield server

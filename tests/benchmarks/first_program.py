"""The first program of a fresh process: what compiling costs before anything is warm."""

import subprocess
import sys

_OURS = """
import time
from tests.benchmarks.compilation import Program
from tests.benchmarks.workloads.control import workloads
from xla_server.backends.compiled.cpu import Cpu
program = Program.of(workloads()["one number"])
print(program.compiled(Cpu())[0])
"""
_THEIRS = """
import time, jax
from tests.benchmarks.workloads.control import workloads
workload = workloads()["one number"]
jax.devices()
lowered = jax.jit(workload.function).lower(*workload.arguments)
started = time.perf_counter()
lowered.compile()
print(time.perf_counter() - started)
"""


def first_program() -> float:
    """The time of compiling a program that adds one number, XLA = 1."""
    ours, theirs = (_seconds(text) for text in (_OURS, _THEIRS))
    return ours / theirs


def _seconds(text: str) -> float:
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])

"""The conformance suite on a platform: pytest, which this process becomes.

The module is also a plugin of pytest, which prints the outcome of each test as a line of JSON.
"""

import os
import sys

import pytest

from tests.cuda.checks.outcomes import Outcome, Status

WORKERS = 4


def become_conformance(platform: str) -> None:
    """Replace this process by pytest."""
    command = [sys.executable, "-m", "pytest", "-o", "addopts=--import-mode=importlib"]
    command += ["-p", "no:cacheprovider", "-p", "no:terminal", "-p", __name__]
    command += ["-n", str(WORKERS), "tests/conformance"]
    environment = os.environ | {"CONFORMANCE_PLATFORM": platform, "JAX_PLATFORMS": "cpu"}
    os.execvpe(sys.executable, command, environment)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print what became of a test."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    if report.failed:
        text = str(report.longrepr)
        print(Outcome(report.nodeid, Status.WRONG, text[-1500:]).line, flush=True)
    elif report.when == "call" and report.passed:
        print(Outcome(report.nodeid).line, flush=True)

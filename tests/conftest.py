import functools
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.corpus.kept import DIRECTORY_VARIABLE, kernel_directory

# A busy machine must not fail a test by its time.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

_ROOT = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    """Have kernels and reports kept in directories of the session, and none in the user's.

    All processes of a session have the same ones, so that a kernel is compiled once.
    """
    _collect_from_elsewhere(config)
    if DIRECTORY_VARIABLE in os.environ:
        return
    root = Path(tempfile.mkdtemp(prefix="xla-service-tests-"))
    config.add_cleanup(functools.partial(shutil.rmtree, root, ignore_errors=True))
    os.environ["XDG_STATE_HOME"] = str(root / "state")
    os.environ[DIRECTORY_VARIABLE] = str(root / "corpus")
    os.environ["XLA_SERVER_COMPILATION_CACHE_DIR"] = kernel_directory()


def _collect_from_elsewhere(config: pytest.Config) -> None:
    """Have each worker begin with other files, whose rewritten assertions the next ones read.

    Rewriting is a third of the work of collection. Side by side, all workers would do all of it.
    Files that are named are collected in any case, so not where some are to be ignored.
    """
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    paths = [Path(argument).resolve() for argument in config.args]
    is_inside = all(path.is_dir() and path.is_relative_to(_ROOT) for path in paths)
    ignored = config.getoption("ignore") or config.getoption("ignore_glob")
    if worker is None or ignored or not is_inside:
        return
    files = sorted({str(file) for path in paths for file in path.rglob("test_*.py")})
    number = int(worker["workerid"].removeprefix("gw"))
    first = len(files) * number // int(worker["workercount"])
    config.args[:] = files[first:] + files[:first]


_WAITING = ("tests/e2e/", "tests/fault/", "tests/fuzz/", "tests/packaging/")
"""Directories of tests of processes, which wait a good part of their time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests of processes first, where one worker of several begins with all of them.

    The others compute meanwhile. Last, they would be shared by all workers, which would all wait.
    All workers have the same order, whichever file they began with.
    """
    items.sort(key=lambda item: (not item.nodeid.startswith(_WAITING), item.path.parts))


def pytest_collection(session: pytest.Session) -> None:
    """Let no garbage be looked for while tests are collected: nothing of it is."""
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Take what was collected, a million objects, out of all later garbage collections.

    These are rarer than by default: a program is many objects, which their references free.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def _every_fusion_compiles(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compiling unfused what fails to compile must hide no fault from the tests."""
    before = _fusion_faults()
    yield
    if request.node.get_closest_marker("fusion_faults") is None:
        assert _fusion_faults() == before


def _fusion_faults() -> int:
    # Tests of the client alone load no server.
    module = sys.modules.get("xla_server.codegen.lower.fusion_faults")
    return 0 if module is None else module.FUSION_FAULTS.count

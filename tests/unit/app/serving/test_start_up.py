"""Modules that commands load before they answer, counted without a clock."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("numba", "llvmlite", "scipy", "jax", "jaxlib")

_LOADED = """
import json, sys
from xla_server.app import cli
sys.argv = {arguments!r}
try:
    cli.main()
finally:
    print("loaded", json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""

_SERVING = """
import json, os, signal, sys, threading
from xla_server.app import cli
from xla_server.app.serving import lifecycle as run
from xla_server.backends import deferred

original = deferred.DeferredBackend._backend

def load(self):
    # The ready line was printed before the platform begins to load.
    assert announced.is_set()
    backend = original(self)
    os.kill(os.getpid(), signal.SIGTERM)
    return backend

announced, announce = threading.Event(), run._announce

def announcing(*facts):
    print("loaded", json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
    announce(*facts)
    announced.set()

deferred.DeferredBackend._backend, run._announce = load, announcing
sys.argv = ["xla-server", "serve", "--listen", "127.0.0.1:0", "--insecure", "--no-prepare"]
cli.main()
"""


def loaded(script: str) -> tuple[set[str], str]:
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    [line] = [line for line in ended.stdout.splitlines() if line.startswith("loaded ")]
    return set(json.loads(line.removeprefix("loaded "))), ended.stdout


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["health", "--help"], ["compile", "--help"]]
)
def test_help_loads_neither_the_server_s_options_nor_what_runs_programs(
    arguments: list[str],
) -> None:
    names, output = loaded(_LOADED.format(arguments=["xla-server", *arguments]))
    assert not names & {*HEAVY, "grpc", "numpy", "pydantic_settings", "rich"}
    assert "xla-server" in output


def test_the_help_of_serve_loads_the_options_and_no_more() -> None:
    names, output = loaded(_LOADED.format(arguments=["xla-server", "serve", "--help"]))
    assert not names & {*HEAVY, "grpc", "numpy", "rich"}
    assert "--max-device-bytes SIZE" in output
    assert "cuda" not in names


def test_the_server_listens_before_the_compiler_is_loaded() -> None:
    names, output = loaded(_SERVING)
    assert not names & set(HEAVY)
    assert '"listening"' in output


def test_the_compiler_loads_of_scipy_the_two_modules_with_blas_and_lapack() -> None:
    names, _ = loaded(
        "import json, sys\n"
        "import xla_server.backends.compiled.cpu\n"
        "from xla_server.codegen.instructions import blas\n"
        "print('loaded', json.dumps(sorted(sys.modules)))\n"
        # A later import of the package has the same modules as its attributes.
        "import scipy.linalg.cython_blas, scipy.linalg.cython_lapack\n"
        "assert scipy.linalg.cython_blas is blas.cython_blas\n"
        "assert scipy.linalg.cython_lapack is blas.cython_lapack\n",
    )
    assert "numba" in names
    # The package takes fifteen times as long, for array libraries, f2py and numpy's tests.
    assert not names & {"scipy.linalg", "numpy.f2py", "numpy.testing", "unittest", "jwt"}


def test_a_module_of_scipy_that_is_there_is_taken() -> None:
    loaded(
        "import scipy.linalg.cython_blas\n"
        "from xla_server.codegen.instructions import blas\n"
        "assert blas.cython_blas is scipy.linalg.cython_blas\n"
        "print('loaded []')\n",
    )


def test_a_health_check_loads_no_part_of_the_server_and_says_why_it_fails() -> None:
    script = (
        "import json, sys\n"
        "from xla_server.app import cli\n"
        "sys.argv = ['xla-server', 'health', '--target', 'unix:/nowhere/socket']\n"
        "try:\n    cli.main()\nexcept SystemExit as ended:\n    assert ended.code == 1\n"
        "print('loaded', json.dumps(sorted(sys.modules)))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert ended.stderr.startswith("xla-server: unix:/nowhere/socket does not serve: UNAVAILABLE: ")
    assert ended.stderr.count("\n") == 1
    names = json.loads(ended.stdout.removeprefix("loaded "))
    assert not [name for name in names if name.startswith(("xla_server.sessions", *HEAVY))]


def test_the_version_is_the_package_s() -> None:
    _, output = loaded(_LOADED.format(arguments=["xla-server", "--version"]))
    assert output.startswith("xla-server 0.")


@pytest.mark.parametrize("missing", ["typer", "numba"])
@pytest.mark.parametrize("main", ["main", "run_main"])
def test_without_the_extra_the_scripts_say_what_to_install(missing: str, main: str) -> None:
    script = (
        "import sys\n"
        "class Absent:\n"
        f"    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] == {missing!r}:\n"
        "            raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        f"from xla_server.app.cli import {main}\n"
        f"{main}()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 2
    program = "xla-server" if main == "main" else "xla-run"
    assert ended.stderr == (
        f"{program}: the server is not installed, {missing} missing: "
        "pip install 'xla-service[server]'\n"
    )


def test_a_platform_that_cannot_be_loaded_ends_the_server_with_1(tmp_path: Path) -> None:
    (tmp_path / "numba.py").write_text("raise OSError('no such compiler')\n")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path[1:]]),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "xla_server", "serve", "--listen", "127.0.0.1:0", "--insecure"],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )
    assert ended.returncode == 1
    assert "no such compiler" in ended.stderr
    assert ended.stderr.endswith("xla-server: the platform cpu cannot be loaded\n")

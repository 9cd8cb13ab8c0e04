import subprocess
import sys
from pathlib import Path

import pytest

from xla_client import local

HEAVY = {"numba", "llvmlite", "scipy", "jax", "jaxlib", "pydantic", "typer", "xla_server"}


# Modules that build programs, and those for mistakes, large tuples and notebooks alone.
LATER = {
    "xla_client.programs.builder",
    "xla_client.ops",
    "xla_client.lib",
    "xla_client.display.graphs",
    "xla_contract.types.dimension_numbers",
    "xla_contract.ops",
    "importlib.metadata",
    "email",
    "difflib",
}


def loaded(program: str) -> set[str]:
    code = f"import sys; {program}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_client_loads_what_every_client_needs():
    before = loaded("import numpy, grpc")
    after = loaded("import numpy, grpc, xla_client")
    assert not LATER & after
    # 300 before anything was loaded later, which took twice as long. Packages of folders hold a
    # docstring alone.
    folders = {name.rpartition(".")[0] for name in after if name.startswith("xla_")}
    assert len(after - before - folders) < 200
    assert {"xla_client.programs.builder", "xla_client.ops"} <= loaded(
        "from xla_client import Builder, ops"
    )


def test_operators_of_ops_have_their_functions() -> None:
    loaded("from xla_client import Builder; -Builder('p').parameter(0, 'f32[3]')")


def test_what_a_first_program_needs_is_loaded_while_a_local_server_starts(target: str):
    program = (
        "from xla_client import local; local._preload(); before = set(sys.modules); "
        "import xla_client as xc; client = xc.connect('TARGET'); b = xc.Builder('sum'); "
        "client.compile(b.build(b.parameter(0, 'f32[3]') + 1)).run([1, 2, 3]); client.close(); "
        "print('later', *sorted(set(sys.modules) - before))"
    ).replace("TARGET", target)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {program}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("later")]
    late = [name for name in line.split() if name.startswith(("xla_", "grpc", "importlib"))]
    assert late == []


def test_every_public_name_is_there():
    import xla_client

    assert set(xla_client.__all__) <= set(dir(xla_client))
    assert [name for name in xla_client.__all__ if not hasattr(xla_client, name)] == []
    with pytest.raises(AttributeError, match="module 'xla_client' has no attribute 'Bilder'"):
        xla_client.Bilder  # noqa: B018


def test_a_local_server_does_without_the_client():
    program = Path(local.__file__).with_name("_local_child.py").read_text()
    assert "xla_client" not in program
    assert not any("xla_client" in part for part in local._CHILD[:3])


def test_importing_the_client_loads_nothing_heavy():
    code = "import sys, xla_client; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())

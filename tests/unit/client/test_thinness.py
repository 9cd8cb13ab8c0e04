import subprocess
import sys

HEAVY = {"numba", "llvmlite", "scipy", "jax", "jaxlib", "pydantic", "typer", "xla_server"}


def test_importing_the_client_loads_nothing_heavy():
    code = "import sys, xla_client; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())

"""Variables of the environment are options of `Settings`, or are listed here and on the page."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
SERVER_PAGE = (ROOT / "docs" / "SERVER.md").read_text(encoding="utf-8")
PARTS = ("server/xla_server", "client/xla_client", "protos/xla_contract", "host/xla_host")

READERS: dict[str, tuple[str, ...]] = {
    "client/xla_client/transfers/shared_memory.py": ("XLA_CLIENT_SHARED_MEMORY",),
    # The credentials of clients: protos/xla_contract/client_settings.py declares them.
    "client/xla_client/transport/credentials.py": (),
    "server/xla_server/app/calling/credentials.py": (),
    # grpc's own, to be set before grpc is imported.
    "client/xla_client/transport/grpc_log.py": ("GRPC_VERBOSITY",),
    # It counts before threads start, and in clients, which have no options.
    "host/xla_host/allocator.py": ("XLA_SERVICE_MALLOC_TUNING",),
    "server/xla_server/app/options/settings.py": ("XDG_STATE_HOME", "XDG_CACHE_HOME"),
    # Open MPI's own, set by mpirun.
    "server/xla_server/distributed/shared_regions.py": ("OMPI_MCA_osc_sm_backing_directory",),
    "server/xla_server/distributed/world.py": ("OMPI_MCA_mpi_ft_enable", "OMPI_MCA_osc"),
    "server/xla_server/rpc/shared_memory_socket.py": ("XDG_RUNTIME_DIR",),
    # Numba's own, which its users know.
    "server/xla_server/target/machine.py": ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"),
}
"""The modules that read the environment, with the variables that they name."""


def reads_environment(source: str) -> bool:
    """Return whether a module uses os.environ or os.getenv, under whatever name."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv"))
        or (isinstance(node, ast.alias) and node.name in ("environ", "environb", "getenv"))
        for node in ast.walk(ast.parse(source))
    )


def test_no_other_module_reads_the_environment() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for part in PARTS
        for path in (ROOT / part).rglob("*.py")
        if reads_environment(path.read_text(encoding="utf-8"))
    }
    assert found == set(READERS)


def test_the_page_has_every_variable_that_a_server_reads() -> None:
    for path, variables in READERS.items():
        for variable in variables:
            if not path.startswith("client"):
                assert f"`{variable}`" in SERVER_PAGE, variable


def test_a_read_is_found() -> None:
    for source in (
        "import os\nos.environ['A']",
        "import os\nos.getenv('A')",
        "from os import environ",
    ):
        assert reads_environment(source)
    assert not reads_environment("environment = {}")

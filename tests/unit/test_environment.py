"""Variables of the environment are declared in `Settings` or in the two records of others."""

import ast
from pathlib import Path

from xla_host import environment_variables
from xla_host.environment_variables import VARIABLES, EnvironmentVariable

ROOT = Path(__file__).parents[2]
PARTS = ("server/xla_server", "client/xla_client", "protos/xla_contract", "host/xla_host")

READERS = {
    # Where variables are declared: options, those of others, those of clients.
    "server/xla_server/app/options/settings.py",
    "host/xla_host/environment_variables.py",
    "protos/xla_contract/client_settings.py",
    # These hand the whole environment to client_settings.py.
    "client/xla_client/transport/credentials.py",
    "server/xla_server/app/calling/credentials.py",
    # It sets grpc's variable while grpc is imported.
    "client/xla_client/transport/grpc_log.py",
}
"""The modules that read the environment."""


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
    assert found == READERS


def test_the_list_has_every_declared_variable() -> None:
    names = vars(environment_variables).values()
    assert [each for each in names if isinstance(each, EnvironmentVariable)] == list(VARIABLES)


def test_a_read_is_found() -> None:
    for source in (
        "import os\nos.environ['A']",
        "import os\nos.getenv('A')",
        "from os import environ",
    ):
        assert reads_environment(source)
    assert not reads_environment("environment = {}")

"""The console commands of the package; they report what is missing without the server's extra.

This module imports nothing of the extra, as pip makes the scripts for the client alone, too.
"""

import importlib.util
import sys

from xla_contract import server_extra
from xla_host.environment_variables import GRPC_LOG

_EXIT_USAGE = 2
"""Exit status of a command line that cannot be used, by convention of argparse and the shell."""


def main() -> None:
    """Run the command of xla-server that this process's arguments name."""
    _begin("xla-server")
    from xla_server.app.commands import app

    app(prog_name="xla-server")


def run_main() -> None:
    """Run xla-run with this process's arguments."""
    _begin("xla-run")
    from xla_server.app.run_tool.command import app

    app(prog_name="xla-run")


def _begin(program: str) -> None:
    """Exit if the extra is missing; keep gRPC from writing lines of its own."""
    missing = [name for name in server_extra.MODULES if not _is_installed(name)]
    if missing:
        sys.stderr.write(
            f"{program}: the server is not installed, {', '.join(missing)} missing: "
            f"{server_extra.INSTALL}\n"
        )
        sys.exit(_EXIT_USAGE)
    GRPC_LOG.set_default("NONE")


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False

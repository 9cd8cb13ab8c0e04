"""Keeps grpc's own log off the terminal: what matters of it is in the error that is raised.

Imported before anything that imports grpc.
"""

import os
import sys

_VARIABLE = "GRPC_VERBOSITY"


def _import_quietly() -> None:
    """Import grpc without its log, unless the user configured it or has imported grpc before."""
    if "grpc" in sys.modules or _VARIABLE in os.environ:
        return
    # It is read once, when grpc is initialised; child processes are to have none of it.
    os.environ[_VARIABLE] = "NONE"
    try:
        import grpc  # noqa: F401
    finally:
        del os.environ[_VARIABLE]


_import_quietly()

"""Modules that one test makes and others read, in files of the session."""

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

DIRECTORY_VARIABLE = "XLA_TESTS_CORPUS_DIR"


def kept(name: str, make: Callable[[], bytes]) -> bytes:
    """Return what `make` returns, from the file of this name if a test of the session wrote it.

    A process that makes it keeps others waiting that want it, too. Outside of a session of tests,
    where no directory is named, it is made each time.
    """
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if directory is None:
        return make()
    path = Path(directory, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            data = make()
        # Readers see a whole file or none.
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(data)
        os.replace(file.name, path)
    return data


def kernel_directory() -> str:
    """Return the directory of the session's compiled kernels; empty outside of a session."""
    directory = os.environ.get(DIRECTORY_VARIABLE)
    return "" if directory is None else str(Path(directory, "kernels"))

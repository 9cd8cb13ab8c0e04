"""The directory of compiled kernels, checked without loading the compiler."""

import logging
import os
import stat
from pathlib import Path

from xla_contract.errors import InvalidArgumentError

_LOG = logging.getLogger(__name__)


def open_directory(directory: Path) -> None:
    """Make the directory of a KernelCache if it is absent; log a failure.

    Raises InvalidArgumentError for one into which other users could write.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        _LOG.warning("kernels are compiled anew at each start: %s", error)
        return
    found = directory.stat()
    if found.st_uid != os.geteuid():
        raise InvalidArgumentError(
            "the directory of compiled kernels must belong to the user who runs the server, "
            f"because what is in it is executed, got {directory} of user {found.st_uid} "
            f"for user {os.geteuid()}"
        )
    if found.st_mode & 0o022:
        raise InvalidArgumentError(
            "no other user may write into the directory of compiled kernels, because what is in it "
            f"is executed, got {directory} with mode {stat.S_IMODE(found.st_mode):o}"
        )

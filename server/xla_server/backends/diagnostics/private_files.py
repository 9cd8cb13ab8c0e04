"""Files and directories that only the user of the server may read, whatever the umask.

They contain clients' data: programs, constants, times.
"""

import errno
import os
import stat
from pathlib import Path

_DIRECTORY = 0o700
_FILE = 0o600
"""Modes of directories and files with clients' data, which only the owner may read."""


def make_directories(directory: Path) -> None:
    """Make a directory and its missing parents; existing ones are unchanged.

    Raises OSError.
    """
    for part in (*reversed(directory.parents), directory):
        if part.is_dir():
            continue
        try:
            make_directory(part)
        except FileExistsError:  # Another thread has made it.
            if not part.is_dir():
                raise


def make_directory(directory: Path) -> None:
    """Make a new directory; raises FileExistsError and OSError."""
    directory.mkdir(mode=_DIRECTORY)
    directory.chmod(_DIRECTORY)


def make_or_close_directory(directory: Path) -> None:
    """Make a directory, or close one of this user's to others.

    Raises PermissionError for another user's, NotADirectoryError for a link or a file, and OSError.
    """
    try:
        make_directory(directory)
    except FileExistsError:
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None
        if found.st_uid != os.geteuid():
            raise PermissionError(errno.EACCES, "it belongs to another user") from None
        if stat.S_IMODE(found.st_mode) != _DIRECTORY:
            directory.chmod(_DIRECTORY)


def write_file(path: Path, content: bytes) -> None:
    """Write a file over one of the same name; raises OSError, also for a link."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with open(os.open(path, flags, _FILE), "wb") as file:
        os.fchmod(file.fileno(), _FILE)
        file.write(content)


def others_may_write(directory: Path) -> bool:
    """Return whether other users may replace the files of a directory."""
    mode = directory.stat().st_mode
    return bool(mode & 0o022) and not mode & stat.S_ISVTX

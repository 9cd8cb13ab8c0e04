"""Files of credentials that are read again when they change."""

import logging
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

_LOG = logging.getLogger(__name__)

MAX_FILE_BYTES = 1 << 22
"""Largest file of credentials: 4 MiB hold 20,000 tokens by their hashes."""

T = TypeVar("T")


class CredentialsError(Exception):
    """Credentials cannot be used; the message names the file and the reason, and no secret."""


class WatchedFile(Generic[T]):
    """The parsed content of a file, or of several together, as of the last time it could be parsed.

    The bytes are compared, not the time of change: a file that is written twice within the
    resolution of the clock would otherwise be missed. A file that is not regular, such as a pipe
    inherited from a parent process, is read once.
    """

    def __init__(self, path: Path, parse: Callable[..., T], *others: Path) -> None:
        """Read and parse; raises CredentialsError.

        `parse` takes the bytes of each file, and raises ValueError without secrets.
        """
        self._paths = (path, *others)
        self._parse = parse
        self._data, self._is_regular = self._read()
        self._seen = self._data
        self._complaint = ""
        self.value = self._parsed(self._data)

    def refresh(self) -> bool:
        """Read again and return whether the value changed.

        A file that is gone or cannot be parsed leaves the value as it was; this is logged once.
        Bytes that have not changed are not parsed again.
        """
        if not self._is_regular:
            return False
        try:
            data, _ = self._read()
            if data == self._seen:
                return False
            self._seen = data
            value = self._parsed(data)
        except CredentialsError as error:
            if str(error) != self._complaint:
                self._complaint = str(error)
                _LOG.warning("credentials stay as they were: %s", error)
            return False
        has_changed = data != self._data
        self._data, self.value, self._complaint = data, value, ""
        if has_changed:
            _LOG.info("credentials read again", extra={"file": str(self._paths[0])})
        return has_changed

    def _parsed(self, data: Sequence[bytes]) -> T:
        try:
            return self._parse(*data)
        except ValueError as error:
            raise CredentialsError(f"{self._paths[0]}: {error}") from None

    def _read(self) -> tuple[list[bytes], bool]:
        found = [read_credentials(path) for path in self._paths]
        return [data for data, _ in found], all(is_regular for _, is_regular in found)


def read_credentials(path: Path) -> tuple[bytes, bool]:
    """Return the bytes of a file and whether it is a regular one; raises CredentialsError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
            is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError as error:
        raise CredentialsError(f"{path}: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise CredentialsError(f"{path}: must have at most {MAX_FILE_BYTES} bytes, got more")
    return data, is_regular


def write_once(path: Path, data: bytes) -> bool:
    """Write a file that only its owner may read, unless it exists; return whether it was written.

    A reader never sees a partly written file. Makes missing directories, which only their owner may
    enter. Raises CredentialsError.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists():  # Perhaps on a disk that is full or cannot be written.
            return False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
            os.link(part, path)
        except FileExistsError:
            return False
        finally:
            part.unlink()
    except OSError as error:
        raise CredentialsError(f"{path}: {error.strerror}") from None
    return True


def require_private(path: Path) -> None:
    """Raise CredentialsError unless a file is this user's own and has mode 0600 or less."""
    try:
        found = os.lstat(path)
    except OSError as error:
        raise CredentialsError(f"{path}: {error.strerror}") from None
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or mode & 0o077:
        raise CredentialsError(
            f"{path}: must be a file of user {os.geteuid()} with mode 0600, got mode "
            f"{mode:04o} of user {found.st_uid}"
        )

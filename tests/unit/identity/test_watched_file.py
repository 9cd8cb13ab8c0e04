import errno
import io
import logging
import os
from pathlib import Path

import pytest

from xla_server.identity import watched_file
from xla_server.identity.watched_file import (
    CredentialsError,
    WatchedFile,
    require_private,
    write_once,
)


def test_a_file_is_read_again_when_it_changes(tmp_path: Path):
    path = tmp_path / "number"
    path.write_text("1")
    watched = WatchedFile(path, int)
    assert (watched.refresh(), watched.value) == (False, 1)
    # The new content has the same size and is written within the same tick of the clock.
    path.write_text("2")
    os.utime(path, ns=(0, 0))
    assert (watched.refresh(), watched.value) == (True, 2)


def test_a_file_that_is_broken_or_gone_changes_nothing_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "number"
    path.write_text("1")
    watched = WatchedFile(path, int)
    with caplog.at_level(logging.WARNING):
        path.write_text("one")
        assert not watched.refresh()
        assert not watched.refresh()
        path.unlink()
        assert not watched.refresh()
    assert watched.value == 1
    assert len(caplog.records) == 2
    path.write_text("3")
    assert watched.refresh()
    assert watched.value == 3


def test_the_first_reading_must_succeed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "number"
    with pytest.raises(CredentialsError, match="number: No such file"):
        WatchedFile(path, int)
    path.write_text("one")
    with pytest.raises(CredentialsError, match="number: invalid literal"):
        WatchedFile(path, int)
    monkeypatch.setattr(watched_file, "MAX_FILE_BYTES", 2)
    with pytest.raises(CredentialsError, match="must have at most 2 bytes"):
        WatchedFile(path, int)


def test_a_pipe_is_read_once():
    reading, writing = os.pipe()
    os.write(writing, b"7")
    os.close(writing)
    watched = WatchedFile(Path(f"/dev/fd/{reading}"), int)
    os.close(reading)
    assert watched.value == 7
    assert not watched.refresh()


def test_a_secret_is_written_once_for_its_owner_alone(tmp_path: Path):
    path = tmp_path / "state" / "token"
    before = os.umask(0)
    try:
        assert write_once(path, b"first")
    finally:
        os.umask(before)
    assert not write_once(path, b"second")
    assert path.read_bytes() == b"first"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert os.listdir(path.parent) == ["token"]
    require_private(path)


def test_a_full_disk_keeps_what_was_written_and_gets_no_part_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "token").write_bytes(b"first")

    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def opened(descriptor: int, _: str) -> Full:
        os.close(descriptor)
        return Full()

    monkeypatch.setattr(watched_file, "open", opened, raising=False)
    assert not write_once(tmp_path / "token", b"second")
    with pytest.raises(CredentialsError, match=r"tls\.pem: No space left"):
        write_once(tmp_path / "tls.pem", b"")
    assert os.listdir(tmp_path) == ["token"]


def test_a_secret_that_others_may_read_or_that_is_a_link_is_none(tmp_path: Path):
    path = tmp_path / "token"
    with pytest.raises(CredentialsError, match="No such file"):
        require_private(path)
    path.write_text("secret")
    path.chmod(0o640)
    with pytest.raises(CredentialsError, match="with mode 0600, got mode 0640"):
        require_private(path)
    path.chmod(0o600)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(CredentialsError, match="must be a file of user"):
        require_private(tmp_path / "link")


def test_a_secret_that_cannot_be_written_says_so(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CredentialsError, match="token: "):
        write_once(tmp_path / "file" / "token", b"")

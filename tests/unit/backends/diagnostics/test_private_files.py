import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from xla_server.backends.diagnostics.private_files import (
    make_directories,
    make_directory,
    make_or_close_directory,
    others_may_write,
    write_file,
)


@pytest.fixture(params=[0o000, 0o022, 0o277], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_directories_and_their_parents_are_closed_to_others(tmp_path: Path) -> None:
    make_directories(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / each) for each in ("a", "a/b", "a/b/c")] == [0o700] * 3


def test_directories_that_are_there_stay_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o755)
    make_directories(tmp_path / "a" / "b")
    make_directories(tmp_path / "a")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a/b")) == (0o755, 0o700)


def test_a_file_in_the_way_of_directories_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        make_directories(tmp_path / "file" / "a")
    with pytest.raises(FileExistsError):
        make_directories(tmp_path / "file")
    with pytest.raises(FileExistsError):
        make_directory(tmp_path / "file")


def test_a_directory_of_this_user_is_closed(tmp_path: Path) -> None:
    directory = tmp_path / "a"
    make_or_close_directory(directory)
    assert mode(directory) == 0o700
    for other in (0o777, 0o755, 0o500):
        directory.chmod(other)
        make_or_close_directory(directory)
        assert mode(directory) == 0o700


def test_a_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        make_or_close_directory(tmp_path / "a")
    assert mode(tmp_path / "a") == 0o755


def test_links_and_files_are_no_directories(tmp_path: Path) -> None:
    make_directory(tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "file").write_text("")
    for name in ("link", "file"):
        with pytest.raises(NotADirectoryError):
            make_or_close_directory(tmp_path / name)


def test_files_are_for_this_user_alone_also_those_that_were_there(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_file(path, b"one")
    assert (path.read_bytes(), mode(path)) == (b"one", 0o600)
    path.chmod(0o666)
    write_file(path, b"2")
    assert (path.read_bytes(), mode(path)) == (b"2", 0o600)


def test_a_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="link"):
        write_file(tmp_path / "link", b"one")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    ("bits", "may"), [(0o700, False), (0o755, False), (0o770, True), (0o702, True), (0o1777, False)]
)
def test_who_may_replace_what_is_written(tmp_path: Path, bits: int, may: bool) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(bits)
    assert others_may_write(tmp_path / "a") is may

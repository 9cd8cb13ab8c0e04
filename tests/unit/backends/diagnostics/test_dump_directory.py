import os
from pathlib import Path

import pytest

from xla_contract.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    ResourceExhaustedError,
)
from xla_server.backends.compile_options import DumpOptions, Pattern
from xla_server.backends.diagnostics.dump_directory import DumpDirectory
from xla_server.backends.diagnostics.dump_files import Budget, DumpFiles


def test_no_name_is_no_dump(tmp_path: Path) -> None:
    assert DumpDirectory(tmp_path).open(DumpOptions(), "m") is None
    assert DumpDirectory().open(DumpOptions(), "m") is None
    assert not list(tmp_path.iterdir())


def test_each_module_gets_a_directory_in_the_one_that_is_named(tmp_path: Path) -> None:
    dumps = DumpDirectory(tmp_path)
    for _ in range(2):
        files = dumps.open(DumpOptions("mine"), "jit_f/../g")
        assert files is not None
        files.write("a.txt", "text")
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.txt")) == [
        "mine/module_0001.jit_f_.._g/a.txt",
        "mine/module_0002.jit_f_.._g/a.txt",
    ]


BAD = ["/etc", "..", ".", ".hidden", "a/b", "../x", "a\\b", "-f", "a b", "é", "a\n", "x" * 81]


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_plain_name_is_refused_by_rule(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="xla_dump_to must be the name of a directory"):
        DumpDirectory(tmp_path).open(DumpOptions(name), "m")
    assert not list(tmp_path.iterdir())


def test_links_and_files_are_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (root / "link").symlink_to(outside)
    (root / "dangling").symlink_to(tmp_path / "nowhere")
    (root / "file").write_text("")
    for name in ("link", "dangling", "file"):
        with pytest.raises(InvalidArgumentError, match="no path and no link"):
            DumpDirectory(root).open(DumpOptions(name), "m")
    assert not list(outside.iterdir())


def test_a_file_is_never_written_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    directory = tmp_path / "dump"
    directory.mkdir()
    (directory / "a.txt").symlink_to(target)
    with pytest.raises(OSError, match=r".*"):
        DumpFiles(directory).write("a.txt", "text")
    assert not target.exists()


def test_without_a_directory_dumps_are_refused_with_a_hint() -> None:
    with pytest.raises(InvalidArgumentError, match="without a directory for dumps") as caught:
        DumpDirectory().open(DumpOptions("mine"), "m")
    assert "--dump-dir" in caught.value.hint


def test_modules_are_chosen_by_name_and_number(tmp_path: Path) -> None:
    dumps = DumpDirectory(tmp_path)
    options = DumpOptions("mine", modules=Pattern("^jit_"), max_modules=2)
    opened = [dumps.open(options, name) for name in ("jit_a", "other", "jit_b", "jit_c")]
    assert [files is not None for files in opened] == [True, False, True, False]
    with pytest.raises(InvalidArgumentError):
        dumps.open(DumpOptions("../x", modules=Pattern("^jit_")), "other")


def test_a_server_dumps_so_many_modules_and_no_more(tmp_path: Path) -> None:
    dumps = DumpDirectory(tmp_path, max_modules=1)
    assert dumps.open(DumpOptions("a"), "m")
    with pytest.raises(ResourceExhaustedError, match="at most 1 modules") as caught:
        dumps.open(DumpOptions("b"), "m")
    assert "xla_dump_to" in caught.value.hint


def test_a_directory_that_cannot_be_written_to_is_said_without_its_path(tmp_path: Path) -> None:
    root = tmp_path / "gone"
    with pytest.raises(FailedPreconditionError, match="No such file") as caught:
        DumpDirectory(root).open(DumpOptions("a"), "m")
    assert str(root) not in caught.value.message


def test_a_module_s_files_are_bounded_in_number_and_size(tmp_path: Path) -> None:
    few = DumpFiles(tmp_path, max_files=1)
    few.write("a", "1")
    few.write("b", "2")
    assert sorted(os.listdir(tmp_path)) == ["a", "left_out.txt"]
    assert (tmp_path / "left_out.txt").read_text().startswith("b (1 bytes) is left out")
    small = tmp_path / "small"
    small.mkdir()
    files = DumpFiles(small, max_bytes=10)
    files.write("large", b"x" * 11)
    files.write("fits", b"x" * 10)
    files.write("more", b"x")
    assert sorted(os.listdir(small)) == ["fits", "left_out.txt"]


def test_all_modules_of_a_server_share_its_bytes(tmp_path: Path) -> None:
    budget = Budget(10)
    first, second = tmp_path / "1", tmp_path / "2"
    for directory in (first, second):
        directory.mkdir()
        DumpFiles(directory, budget=budget).write("a", b"x" * 6)
    assert os.listdir(first) == ["a"]
    assert os.listdir(second) == ["left_out.txt"]


def test_dumps_are_for_the_server_s_user_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "mine").mkdir(mode=0o755)
    before = os.umask(0)
    try:
        files = DumpDirectory(tmp_path).open(DumpOptions("mine"), "m")
        assert files is not None
        files.write("a.txt", "text")
        files.leave_out("b.txt", "5 bytes")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {
        "mine": 0o700,
        "module_0001.m": 0o700,
        "a.txt": 0o600,
        "left_out.txt": 0o600,
    }
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_a_directory_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    rule = "must be able to write there, got it belongs to another user"
    with pytest.raises(FailedPreconditionError, match=rule):
        DumpDirectory(tmp_path).open(DumpOptions("mine"), "m")

"""The directory of compiled kernels is made for its user alone, and refused to all others."""

import logging
from pathlib import Path

import pytest

from xla_contract.errors import InvalidArgumentError
from xla_server.codegen.compiler.cache_directory import open_directory


def test_it_is_made_for_its_user_alone(tmp_path: Path) -> None:
    directory = tmp_path / "kernels" / "of" / "ours"
    open_directory(directory)
    open_directory(directory)
    assert directory.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_one_that_others_write_into_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    with pytest.raises(
        InvalidArgumentError, match=f"no other user may write .* with mode {mode:o}"
    ):
        open_directory(tmp_path)


def test_one_that_cannot_be_made_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with caplog.at_level(logging.WARNING):
        open_directory(tmp_path / "file" / "kernels")
    assert "kernels are compiled anew at each start" in caplog.text

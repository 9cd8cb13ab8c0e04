import logging
import os
from pathlib import Path

import pytest

from tests.corpus.hlo_text import VECTOR_LOOP
from xla_contract.errors import InternalError
from xla_server.backends.compile_options import DEFAULTS
from xla_server.backends.diagnostics.incidents import Incidents, new_incident
from xla_server.ir.text.parser import parse_module


def report(incidents: Incidents) -> InternalError:
    return incidents.report(ValueError("cause"), parse_module(VECTOR_LOOP), DEFAULTS)


def test_ids_are_not_used_twice() -> None:
    assert len({new_incident() for _ in range(100)}) == 100


def test_the_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "state" / "incidents"
    before = os.umask(0)
    try:
        error = report(Incidents(directory))
    finally:
        os.umask(before)
    assert os.listdir(directory) == [f"incident_{error.incident}"]
    made = [tmp_path / "state", *(tmp_path / "state").rglob("*")]
    assert len(made) > 4
    for path in made:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)


def test_only_so_many_are_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    incidents = Incidents(tmp_path, max_kept=2)
    (tmp_path / "something else").mkdir()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert report(incidents).incident
    assert len(list(tmp_path.glob("incident_*"))) == 2
    assert "there are 2 reproducers" in caplog.text


def test_a_disk_that_takes_nothing_does_not_hide_the_fault(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        error = report(Incidents(tmp_path / "file" / "incidents"))
    assert error.incident in error.message
    assert "a reproducer cannot be written" in caplog.text


def test_without_a_directory_the_log_has_the_cause(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        error = report(Incidents())
    assert error.incident in caplog.text
    assert "ValueError: cause" in caplog.text

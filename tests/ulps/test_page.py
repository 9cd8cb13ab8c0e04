"""docs/FUNCTIONS.md says what is measured, what is promised, and what kernels give."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.ulps import __main__ as command
from tests.ulps import page
from tests.ulps.errors import ulps, worst
from tests.ulps.measuring import EVERY, WHOLE, Error, Notes, bound_of, measured, wanted
from tests.ulps.samples import CHUNK, slice_of_all


def test_the_page_is_what_its_measurements_make_it() -> None:
    text = page.PATH.read_text(encoding="utf-8")
    errors = page.errors_of(text)
    assert text == page.page(errors), "run `make ulps`"
    assert set(errors) == set(EVERY), "run `make ulps`"
    for (function, name), error in errors.items():
        assert error.ulps <= bound_of(function, name)
        assert error.count >= wanted(function, name, WHOLE >> 8)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_errors_are_counted_in_ulps_of_the_exact_result(name: str) -> None:
    dtype = np.dtype(name.replace("f", "float"))
    one, limits = dtype.type(1), np.finfo(dtype)
    wide = np.float64 if name == "f32" else np.longdouble
    overflown = wide(limits.max) * 2
    cases = [
        (one + limits.eps, wide(1), 1),
        (one, wide(1) - wide(limits.epsneg), 1),
        (dtype.type(0), wide(limits.smallest_subnormal), 1),
        (dtype.type(np.inf), overflown, 0),
        (limits.max, overflown, np.inf),
        (dtype.type(np.nan), wide(1), np.inf),
        (dtype.type(np.nan), wide(np.nan), 0),
        (dtype.type(-0.0), wide(0), 1),
    ]
    for result, exact, expected in cases:
        results, right = np.array([result], dtype), np.array([exact], wide)
        assert ulps(name, results, right)[0] == expected, (result, exact)
        assert worst(name, results, right) == (expected, 0), (result, exact)


def test_a_slice_has_one_number_of_each_part() -> None:
    bits = slice_of_all(0, 1 << 10, 1 << 22).view(np.uint32)
    assert (bits >> 22).tolist() == list(range(1 << 10))
    assert len(set(bits % 1024)) > 500
    everything = slice_of_all(5, 3, 1).view(np.uint32)
    assert everything.tolist() == [5, 6, 7]


def test_a_measurement_goes_on_where_it_was() -> None:
    count = 2 * CHUNK
    first, whole = measured("sqrt", "f32", count)
    (resumed,) = measured("sqrt", "f32", count, first)
    assert (first.count, resumed) == (CHUNK, whole)
    assert not list(measured("sqrt", "f32", count, whole))


def test_numbers_are_written_down_as_they_are_read(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes.json")
    for name, at in (("f64", (1.5, 2.0)), ("c128", (1 - 2j, 3j))):
        error = Error(0.5, at, 7)
        notes.put("pow", name, 7, error)
        assert Notes(tmp_path / "notes.json").get("pow", name, 7) == error


def test_the_command_writes_down_what_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written, notes = tmp_path / "FUNCTIONS.md", tmp_path / "notes.json"
    monkeypatch.setattr(command, "PATH", written)
    monkeypatch.setattr(command, "NOTES", notes)
    monkeypatch.setattr(command, "bound_of", lambda function, name: 0.25)
    assert command.main(["--functions", "sign,exp", "--types", "bf16"]) == 1
    said = capsys.readouterr().out.splitlines()
    assert [line.endswith("EXCEEDED") for line in said] == [False, True]
    errors = page.errors_of(written.read_text(encoding="utf-8"))
    assert set(errors) == {("sign", "bf16"), ("exp", "bf16")}
    assert json.loads(notes.read_text())["sign bf16 65536"][0] == 0
    assert Notes(notes).get("exp", "bf16", 1 << 16) is not None
    with pytest.raises(SystemExit, match=r"must be of .*, got tamh"):
        command.main(["--functions", "tamh"])


def test_pages_are_read_as_they_are_written() -> None:
    errors = {
        ("exp", "f32"): Error(1.125, (0.5,), WHOLE),
        ("pow", "f64"): Error(0.5, (2.0, -3.0), 1 << 22),
        ("tanh", "f32"): Error(0.75, (1.5,), WHOLE >> 8),
        ("sin", "bf16"): Error(0.5, (-1.0,), 1 << 16),
        ("atan2", "c128"): Error(2.5, (1 - 2.5j, 3j), 1 << 20),
    }
    assert page.errors_of(page.page(errors)) == errors

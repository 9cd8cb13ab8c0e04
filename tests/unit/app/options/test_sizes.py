"""Sizes in bytes, from flags, the environment and the file alike."""

from pathlib import Path

import pytest

from xla_server.app.endings import ConfigurationError
from xla_server.app.options.settings import Settings, is_size, load_settings
from xla_server.app.options.sizes import RULE, format_size, parse_size, readable_size

SIZES = [name for name in Settings.model_fields if is_size(name)]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4GiB", 4 * 2**30),
        ("512MiB", 512 * 2**20),
        ("512 mib", 512 * 2**20),
        ("1.5GB", 1_500_000_000),
        ("1.5KiB", 1536),
        ("0.1kB", 100),
        ("2TB", 2 * 10**12),
        ("7B", 7),
    ],
)
def test_a_number_may_have_a_unit(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize("value", ["1048576", " 12 ", "-1", "1_000", 7, 7.0, None])
def test_what_has_none_is_left_to_the_parser_of_numbers(value: object) -> None:
    assert parse_size(value) == value


@pytest.mark.parametrize(
    "text", ["", "GiB", "4 XB", "1e9", "-1GiB", "1.GiB", "4GiB8", "four", "٤GiB", "4g"]
)
def test_other_texts_are_refused_with_the_rule(text: str) -> None:
    hint = ".*; g alone may mean GiB or GB, got '4g'$" if text == "4g" else ""
    with pytest.raises(
        ValueError, match=rf"^must be a number of bytes, or one with KiB, MiB{hint}"
    ):
        parse_size(text)


@pytest.mark.parametrize("name", SIZES)
def test_every_option_that_is_a_size_takes_units_from_everywhere(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "server.toml"
    config.write_text(f'{name} = "3MiB"\n')
    assert getattr(load_settings({}, config), name) == 3 * 2**20
    monkeypatch.setenv(f"XLA_SERVER_{name.upper()}", "1.5MB")
    assert getattr(load_settings({}, config), name) == 1_500_000
    assert getattr(load_settings({name: "4KiB"}, config), name) == 4096
    assert getattr(load_settings({name: "4096"}), name) == 4096
    with pytest.raises(ConfigurationError, match=f"^{name}: {RULE[:20]}.*, got 'all'$"):
        load_settings({name: "all"})


def test_bounds_hold_for_what_a_unit_makes() -> None:
    with pytest.raises(ConfigurationError, match=r"max_message_bytes: .*2147483647"):
        load_settings({"max_message_bytes": "4GiB"})


def test_all_sizes_there_are_were_found() -> None:
    assert len(SIZES) >= 10


@pytest.mark.parametrize(
    ("count", "exact", "readable"),
    [
        (0, "0", "0 B"),
        (2**30, "1GiB", "1.0 GiB"),
        (3 * 2**19, "1536KiB", "1.5 MiB"),
        (2**31 - 1, "2147483647", "2.0 GiB"),
    ],
)
def test_sizes_are_written_as_they_are_read(count: int, exact: str, readable: str) -> None:
    assert format_size(count) == exact
    assert parse_size(exact) in (count, exact)
    assert readable_size(count) == readable

"""Packages that the targets of make and the commands of README install."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def commands_of(target: str, environment: Path) -> str:
    """Return the commands of a make target for a virtual environment in this directory."""
    return subprocess.run(
        ["make", "--dry-run", target, f"VENV={environment}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize(
    ("target", "extras"),
    [("demo", "server,demo"), ("serve", "server,demo"), ("docs", "docs"), ("layers", "dev")],
)
def test_a_target_installs_what_it_needs_and_no_more(
    target: str, extras: str, tmp_path: Path
) -> None:
    made = commands_of(target, tmp_path / "none")
    assert re.findall(r"--editable '\.\[(.*?)\]'", made) == [extras]
    assert "-m venv" in made
    # Commands are listed, and none of them is executed.
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("target", ["demo", "serve", "docs", "layers"])
def test_with_everything_installed_no_target_installs_anything(target: str, tmp_path: Path) -> None:
    (tmp_path / ".installed").touch()
    assert "pip install" not in commands_of(target, tmp_path)


def test_what_was_installed_for_the_demo_alone_does_not_do_for_tests(tmp_path: Path) -> None:
    (tmp_path / ".installed-demo").touch()
    assert "pip install" not in commands_of("demo", tmp_path)
    assert "'.[dev]'" in commands_of("layers", tmp_path)


def test_the_extras_that_pages_name_are_there_and_dev_has_all_but_one() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "".join(page.read_text() for page in pages)
    named = {name for names in re.findall(r"'?\.\[([a-z,]+)\]", text) for name in names.split(",")}
    extras = PROJECT["optional-dependencies"]
    assert named <= set(extras)
    # Large ones for GPUs alone.
    others = [name for name in extras if name not in ("dev", "cuda", "cudnn", "cuda-test")]
    assert f"xla-service[{','.join(others)}]" in extras["dev"]


def test_the_target_for_machine_code_of_gpus_installs_its_extra(tmp_path: Path) -> None:
    assert "'.[dev,cuda-test]'" in commands_of("test-cuda-machine-code", tmp_path)


def test_the_scripts_are_those_that_pages_name() -> None:
    assert set(PROJECT["scripts"]) == {"xla-server", "xla-run"}

"""An assembler for tests, which need no package of NVIDIA's."""

import importlib.metadata
import sys
import types
from pathlib import Path

import pytest

from tests.unit.codegen.gpu.emit import fake_ptxas

VERSION = "13.5.37"


def install_ptxas(directory: Path, monkeypatch: pytest.MonkeyPatch, name: str = "ptxas") -> str:
    """Let the fake count as installed, as a file of this name; return its path."""
    path = directory / "ptxas"
    path.write_text(f"#!{sys.executable}\n{Path(fake_ptxas.__file__).read_text()}")
    path.chmod(0o700)
    file = types.SimpleNamespace(name=name, locate=lambda: path)
    package = types.SimpleNamespace(version=VERSION, files=[file])
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: package)
    return str(path)


def remove_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it count as missing."""

    def distribution(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)

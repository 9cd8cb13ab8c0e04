"""The registry of platforms is the only module that names them."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import xla_server
from xla_server.app.endings import ConfigurationError
from xla_server.app.options.platform_names import Platform
from xla_server.app.options.settings import Distribution, Settings
from xla_server.app.platforms import create_backend

ROOT = Path(xla_server.__path__[0])
SOURCES = {
    Platform.CPU: "backends/compiled/cpu.py",
    Platform.CUDA: "backends/cuda/backend.py",
    Platform.INTERPRETER: "backends/interpreter.py",
}
MODULES = {f"xla_server.{source[:-3].replace('/', '.')}" for source in SOURCES.values()}
REGISTRY = {"app/platforms.py", "app/options/platform_names.py"}
OTHERS = {
    # jax has a platform of the same name.
    ("app/run_tool/runners.py", "cpu"),
    # So has a controller of control groups.
    ("target/available.py", "cpu"),
    # A platform says its own name.
    *((source, platform.value) for platform, source in SOURCES.items()),
}


def named(source: str) -> Iterator[str]:
    """Yield the platforms that a module imports, and those that its code names."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=str(module)) if module in MODULES:
                yield module
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name in MODULES)
            case ast.Constant(value=str(text)) if text in set(Platform):
                yield text
            case ast.Attribute(value=ast.Name("Platform"), attr=member):
                yield member


def test_code_outside_of_the_registry_names_no_platform() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in ROOT.rglob("*.py")
        for name in named(path.read_text())
    }
    assert {(path, name) for path, name in found if path not in REGISTRY} == OTHERS
    assert {path for path, _ in found} >= REGISTRY


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from xla_server.backends.compiled.cpu import Cpu", "xla_server.backends.compiled.cpu"),
        ("import xla_server.backends.interpreter", "xla_server.backends.interpreter"),
        ("if backend.platform == 'cpu': pass", "cpu"),
        ("settings.platform is Platform.CPU", "CPU"),
    ],
)
def test_each_way_to_name_one_is_found(source: str, name: str) -> None:
    assert list(named(source)) == [name]


def test_a_platform_with_memory_of_its_own_is_not_distributed() -> None:
    settings = Settings(platform=Platform.CUDA, distributed=Distribution.MPI)
    with pytest.raises(ConfigurationError, match=r"must be none .* got mpi on cuda"):
        create_backend(settings)

"""Each module of code generation is for GPUs, for processors, or shared by both."""

import tomllib
from pathlib import Path

from tests.unit.source.test_import_circles import imported, sources
from xla_server.ir.traversal import reached

PROJECT = Path(__file__).parents[3] / "pyproject.toml"
CONTRACT = "code generation that platforms share knows none for processors, nor do GPUs"


def test_what_gpus_do_not_use_is_for_processors_alone() -> None:
    contracts = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (own,) = (each["forbidden_modules"] for each in contracts if each["name"] == CONTRACT)
    known = sources()
    modules = [name for name in known if name.startswith("xla_server.codegen.")]
    gpu = [name for name in modules if name.startswith("xla_server.codegen.gpu.")]
    used = set(reached(gpu, lambda name: imported(known[name].read_text(), known)))
    for_processors = {
        name for name in modules if any(f"{name}.".startswith(f"{part}.") for part in own)
    }
    left = {name for name in modules if known[name].name != "__init__.py"} - used - for_processors
    assert left == set()
    assert not used & for_processors
    assert len(for_processors) > 30

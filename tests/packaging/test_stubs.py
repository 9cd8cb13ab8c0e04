"""Stubs are made anew when the protos differ from those that they were made of."""

import importlib.util
import os
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_stubs_follow_the_content_of_protos_whatever_their_age(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    protos = shutil.copytree(ROOT / "protos/xla", tmp_path / "protos/xla")
    (tmp_path / "protos/xla_contract").mkdir()
    assert build.generate(tmp_path)
    assert not build.generate(tmp_path)
    changed = protos / "xla_service.proto"
    changed.write_text(changed.read_text() + "// More.\n")
    os.utime(changed, (0, 0))
    assert build.generate(tmp_path)
    assert not build.generate(tmp_path)

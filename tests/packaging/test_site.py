"""`make docs`: the site has all pages, the reference of all public names, and no broken link."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import xla_client
from tests.corpus.kept import kept
from xla_client import ops

pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
pytest.importorskip("mkdocstrings", reason="the extra `docs` is not installed")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a warning, as of a link to no page, fails."""
    directory = tmp_path_factory.mktemp("site")
    archive = directory / "site.tar"
    archive.write_bytes(kept(archive.name, lambda: _built(directory / "built")))
    shutil.unpack_archive(archive, directory / "site")
    return directory / "site"


def _built(directory: Path) -> bytes:
    """Return an archive of the site."""
    ended = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(directory)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return Path(shutil.make_archive(str(directory), "tar", directory)).read_bytes()


def test_every_page_of_docs_and_of_the_root_is_there(site: Path) -> None:
    pages = [path.stem for path in (ROOT / "docs").glob("*.md")]
    for name in ("index", "ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", *pages):
        assert (site / f"{name}.html").is_file(), name
    decisions = (site / "decisions" / "index.html").read_text()
    for record in (ROOT / "docs" / "decisions").glob("0*.md"):
        assert f'href="{record.stem}.html"' in decisions, record.name
    listed = (ROOT / "mkdocs.yml").read_text()
    assert [name for name in pages if f"{name}.md" not in listed] == []


@pytest.mark.parametrize("module", [xla_client, ops], ids=lambda module: module.__name__)
def test_every_public_name_has_its_reference(site: Path, module: object) -> None:
    package = xla_client if module is xla_client else ops
    page = (site / "reference" / f"{package.__name__}.html").read_text()
    names = [name for name in package.__all__ if name not in ("ops", "lib", "__version__")]
    assert [name for name in names if f'id="{package.__name__}.{name}"' not in page] == []


def test_every_module_of_the_library_has_a_page(site: Path) -> None:
    directory = ROOT / "client" / "xla_client" / "lib"
    modules = [path.stem for path in directory.glob("*.py") if not path.stem.startswith("_")]
    assert len(modules) > 20
    for name in modules:
        page = site / "reference" / f"xla_client.lib.{name}.html"
        assert f'id="xla_client.lib.{name}.' in page.read_text(), name

"""Pages for contributors name files and names that there are."""

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md")
_SOURCES = ("client", "docs", "host", "protos", "server", "tests")
_CODE = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.]+(/[\w.]+)*/?")
_NAME = re.compile(r"[A-Za-z_][\w.]*(?=\(.*\)|$)")


@functools.cache
def files() -> frozenset[str]:
    """Return the paths of all sources, with a slash on both ends."""
    found = [*ROOT.iterdir(), *(file for name in _SOURCES for file in (ROOT / name).rglob("*"))]
    return frozenset(f"/{file.relative_to(ROOT)}/" for file in found)


@functools.cache
def names() -> frozenset[str]:
    """Return all words of the code."""
    code = [path for path in files() if path.endswith((".py/", ".proto/"))]
    texts = ((ROOT / path.strip("/")).read_text(encoding="utf-8") for path in code)
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


def missing(page: str) -> list[str]:
    """Return the paths and names on a page, between backticks, that the sources do not have."""
    found = []
    for code in _CODE.findall(page):
        if ("/" in code or code.endswith(".py")) and _PATH.fullmatch(code):
            is_there = any(f"/{code.strip('/')}/" in path for path in files())
        else:
            name = _NAME.match(code)
            is_there = name is None or set(name[0].strip(".").split(".")) <= names()
        found += [] if is_there else [code]
    return found


@pytest.mark.parametrize("page", PAGES)
def test_all_that_a_page_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not [code for code in missing(text) if not code.endswith(".h")]  # files of XLA's


def test_what_is_not_there_is_found() -> None:
    absent = ["passes/nowhere.py", f"absent_{'name'}(x)", f"Settings.absent_{'name'}"]
    present = ["passes/", "cli.py", "Settings", "Settings.listen", "make test", "a[1]"]
    page = " ".join(f"`{code}`" for code in absent + present)
    assert missing(page) == absent

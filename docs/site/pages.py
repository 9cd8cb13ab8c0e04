"""Pages of the site that no file of docs/ is: those of the root, and the API reference.

A hook of mkdocs, which calls `on_config` before it looks for pages and `on_files` after that.
"""

import pkgutil
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
_OF_THE_ROOT = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "",
    "CONTRIBUTING.md": "",
    "CHANGELOG.md": "",
}
"""Pages that are kept in the root, and their names on the site where these are others."""

_LINK = re.compile(r"\]\((?!https?://)([^)#]+)(#[^)]*)?\)")

_WHOLE = ("xla_client", "xla_client.ops")
"""Packages whose names are used as theirs, whichever module they come from: a page each."""

_BY_MODULE = "xla_client.lib"
"""The package whose modules are imported by name: a page for each."""


def reference_pages() -> dict[str, str]:
    """Return the text of each page of reference by its name."""
    directory = ROOT / "client" / _BY_MODULE.replace(".", "/")
    modules = [each.name for each in pkgutil.iter_modules([str(directory)])]
    names = (*_WHOLE, *(f"{_BY_MODULE}.{name}" for name in modules if not name.startswith("_")))
    # An Op's operators are inherited.
    options = {"xla_client": "    options:\n      inherited_members: true\n"}
    return {
        f"reference/{name}.md": f"# {name}\n\n::: {name}\n{options.get(name, '')}" for name in names
    }


def on_config(config: Any) -> Any:
    """Add the pages of reference to the navigation."""
    for section in config.nav:
        if "Reference" in section:
            section["Reference"] = [{Path(page).stem: page} for page in sorted(reference_pages())]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root and of reference."""
    for source, name in _OF_THE_ROOT.items():
        text = (ROOT / source).read_text()
        files.append(File.generated(config, name or source, content=_LINK.sub(_relinked, text)))
    for name, text in reference_pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Have links to files that are no pages of the site stand as text."""
    return _LINK.sub(_known_alone, markdown)


def _relinked(found: "re.Match[str]") -> str:
    """A link of a page of the root, from where the page is on the site."""
    return f"]({found[1].removeprefix('docs/')}{found[2] or ''})"


def _known_alone(found: "re.Match[str]") -> str:
    if found[1].startswith("decisions/") or re.match(r"\d{4}-", found[1]):
        return found[0]
    target = Path(found[1]).name
    is_page = found[1].endswith(".md") and (
        (ROOT / "docs" / target).exists() or target in _OF_THE_ROOT
    )
    if not is_page:
        return "]"
    name = _OF_THE_ROOT.get(target) or target
    return f"]({name}{found[2] or ''})"

"""Terms of the glossary of ARCHITECTURE.md are the field's: each says the page it comes from."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\(([^)]+)\)")


def _rows() -> list[tuple[str, str, str]]:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.partition("## Glossary")[2].partition("\n## ")[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    return [(term.strip(), meaning, source.strip()) for term, meaning, source in rows[1:]]


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row[0])
def test_a_term_has_a_meaning_and_a_page_that_it_comes_from(row: tuple[str, str, str]) -> None:
    term, meaning, source = row
    targets = _LINK.findall(source)
    assert term
    assert meaning
    assert targets
    for target in targets:
        assert target.startswith("https://") or (ROOT / target).is_file()


def test_a_term_has_one_row() -> None:
    terms = [term for row, _, _ in _rows() for term in re.split(r", (?![^(]*\))", row)]
    assert len(terms) > 60
    assert len(terms) == len(set(terms))

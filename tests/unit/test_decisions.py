"""A record of a decision says why, what, what follows, and what was measured."""

import re
from pathlib import Path

import pytest

RECORDS = sorted((Path(__file__).parents[2] / "docs" / "decisions").glob("0*.md"))
PARTS = ("Context", "Decision", "Consequence", "Measurement")


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_a_record_has_the_four_parts_in_order(record: Path) -> None:
    headings = re.findall(r"^\*\*(\w+)\.\*\* \S", record.read_text(encoding="utf-8"), re.MULTILINE)
    assert tuple(each for each in headings if each in PARTS) == PARTS

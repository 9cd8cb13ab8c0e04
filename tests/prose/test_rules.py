from pathlib import Path

import pytest

from tests.prose import __main__ as prose
from tests.prose.rules import MAX_WORDS, Rule, faults


@pytest.mark.parametrize(
    ("source", "rules"),
    [
        ('"""Of a session that has ended."""', [Rule.SUBJECT]),
        ('LIMIT = 1\n"""What one session may have."""', [Rule.SUBJECT]),
        ('"""How long a session may last."""', [Rule.SUBJECT]),
        ('"""Wait until somebody reads it."""', [Rule.DIALECT]),
        ("# Whether the session of this call is still there or not.", [Rule.SUBJECT]),
        ('"""Return the trips of a loop."""', [Rule.DIALECT]),
        ("x = 1  # the word is read here", [Rule.DIALECT]),
        (f'"""Return {"a " * MAX_WORDS}value."""', [Rule.LONG]),
        ('"""Return a value. What for is open."""', [Rule.SUBJECT]),
        ('def f():\n    """Return a value.\n\n    - Of this kind.\n    """', [Rule.SUBJECT]),
        (
            'def f():\n    """Return a value.\n\n    Args:\n        x: What is read.\n    """',
            [Rule.SUBJECT],
        ),
        ('def f():\n    """Return a value.\n\n    Args:\n        x: Whether to read.\n    """', []),
        # A label, directives, terms that are the field's, text that is no docstring.
        ("# Of the server.", []),
        ("import os  # noqa: that which the linter says here about it", []),
        ('"""Fold constants in place: constant folding."""', [Rule.DIALECT]),
        ('"""Overwrite the operand in place, after constant folding."""', []),
        ('"""Return errors in units in the last place."""', []),
        ('"""Return the trip count, which a round trip does not change."""', []),
        ('x = "of nobody"', []),
        ('"""Return the work items of a loop."""', []),
    ],
)
def test_faults_of_sentences(source: str, rules: list[Rule]) -> None:
    assert [each.rule for each in faults(source)] == rules


def test_a_fault_has_the_line_and_the_usual_term() -> None:
    [fault] = faults('"""Module."""\n\n\ndef f():\n    """Return the tail of a product."""\n')
    assert (fault.line, fault.advice) == (5, "epilogue, remainder, not 'tail'")


def test_a_fault_below_a_directory_is_printed_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["prose", "package"])
    (tmp_path / "package").mkdir()
    module = tmp_path / "package" / "module.py"
    module.write_text('"""A module."""\n')
    assert prose.main() == 0
    module.write_text('"""Of a module."""\n')
    assert prose.main() == 1
    assert capsys.readouterr().out.startswith("package/module.py:1: subject: ")


@pytest.mark.parametrize(
    ("kind", "source", "rules"),
    [
        # Comments of a protocol buffer are docstrings of what is below them.
        (".proto", "// Of a value.\nmessage M {\n  int64 a = 1;\n}\n", [Rule.SUBJECT]),
        (".proto", "message M {\n  // What it is.\n  int64 a = 1;\n}\n", [Rule.SUBJECT]),
        (
            ".proto",
            "message M {\n  int64 a = 1;  // Nobody reads it.\n}\n",
            [Rule.SUBJECT, Rule.DIALECT],
        ),
        (".proto", "// Values\n// ------\n// A place in\n// memory.\n", [Rule.DIALECT]),
        (".proto", "// Rules:\n//  * as here\n//  * a value\n", [Rule.SUBJECT]),
        (".proto", f"// A sentence{' a' * MAX_WORDS}.\n", [Rule.LONG]),
        (".proto", 'import "xla/of.proto";\n// A value.\nmessage What {}\n', []),
        # Paragraphs, items and cells of a page are prose.
        (".md", "A value. What is given to\nothers goes on and on.", [Rule.SUBJECT]),
        (".md", "- A value.\n- Nobody takes it.\n", [Rule.DIALECT]),
        (
            ".md",
            "# A page of\n\n| term | What both sides have agreed on before |\n",
            [Rule.SUBJECT],
        ),
        (".md", "**Rule.** Nothing is stored in that memory now.", [Rule.SUBJECT]),
        (".md", "A [place](../page.md) in memory.", [Rule.DIALECT]),
        (".md", f"A sentence{' a' * MAX_WORDS}.", [Rule.LONG]),
        # Programs, literals, targets of links and labels are not.
        (".md", "A value.\n\n```text\nof nobody\n```\n\nA value.", []),
        (".md", "A value.\n\n    xla-server serve  # what nobody reads in any place\n", []),
        (".md", "<!--\nthe word\n-->\nA value `of nobody`, or [one](tail.md).", []),
        (".md", "<!--\nthe word\n-->\nA tail.", [Rule.DIALECT]),
        (".md", "# What it is\n\n**Measurement.** None: it is a rule of the wire.", []),
    ],
)
def test_faults_of_other_files(kind: str, source: str, rules: list[Rule]) -> None:
    assert [each.rule for each in faults(source, kind)] == rules


def test_an_item_of_a_page_has_the_line_it_begins_in() -> None:
    [fault] = faults("# Page\n\nA value.\n- One\n  value.\n- The\n  tail.\n", ".md")
    assert fault.line == 6


def test_every_file_with_prose_is_checked_but_for_logs() -> None:
    names = {
        file.relative_to(prose.ROOT).as_posix()
        for source in prose.SOURCES
        for file in prose.files_below(prose.ROOT / source)
    }
    assert {"protos/xla/xla_extension.proto", "ARCHITECTURE.md", "docs/decisions/index.md"} <= names
    assert "client/examples/README.md" in names
    assert not {"CHANGELOG.md", "tests/benchmarks/LOG.md"} & names

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

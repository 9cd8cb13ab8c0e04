"""The rules of prose: a sentence has a subject, standard terms, and an end.

CONTRIBUTING.md states them; ARCHITECTURE.md has the glossary.
"""

import ast
import enum
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

MAX_WORDS = 40
"""Words of a sentence, above which it must be two."""

_MIN_COMMENT_WORDS = 7
"""Words of a comment, from which on it is a sentence; shorter ones may be labels."""

_OPENINGS = re.compile(
    r"(?:as|among|at|behind|beside|between|by|from|how|nobody|none|nothing|of|that|what|whether|which|"
    r"who|whose)",
    re.IGNORECASE,
)

_DIALECT = {
    r"(?<!round )trips?(?! counts?)": "work item, iteration",
    r"(?<!constant )fold(?:s|ed|ing)?": "reduction, accumulator",
    r"(?<!in )(?<!in-)(?<!last )places?": "slot, position, address, buffer",
    r"kept rows?": "row buffer",
    r"patches": "im2col",
    r"features[ -]last": "channels last",
    r"tail": "epilogue, remainder",
    r"glue": "-O0",
    r"the word": "cancellation flag",
    r"steady names?": "SSA value",
    r"written out": "unrolled, inlined, materialised",
    r"rests": "remains",
    r"nobody": "no caller, no client",
    r"(?:any|every|some)body": "a caller, all clients, another thread",
}
"""Words of a dialect, and the terms that the field has for them."""

_DIALECT_PATTERN = re.compile(
    "|".join(rf"(?P<w{n}>\b(?:{words})\b)" for n, words in enumerate(_DIALECT)), re.IGNORECASE
)
_TERMS = tuple(_DIALECT.values())
_SENTENCE_END = re.compile(
    r"(?<=[.!?])\s+(?=[A-Z`])|(?<=:)\s+(?!Whether\b)(?=[A-Z`])|\n\s+(?=\w+: Whether\b)"
    r"|\n\s*\n|\n\s*- "
)
"""The space behind a sentence. An argument is the subject of `lower: Whether to read ...`."""
_WORD = re.compile(r"[A-Za-z_][\w'-]*")
_COMMENT = re.compile(r"^\s*(#.*)|  (#[^'\"]*)$")
"""A comment; one behind code has no quotes, as it might be a part of a text."""
_DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|ruff|pragma|fmt|mypy|!)")


class Rule(enum.StrEnum):
    """Faults of a sentence."""

    SUBJECT = "subject"
    DIALECT = "dialect"
    LONG = "long"


class Fault(NamedTuple):
    """A sentence that breaks a rule."""

    line: int
    rule: Rule
    advice: str
    sentence: str


def faults(source: str) -> Iterator[Fault]:
    """Yield the faults of a Python module's docstrings and comments."""
    docstrings, strings = _texts(ast.parse(source))
    for line, text, is_docstring in (*docstrings, *_comments(source, strings)):
        for sentence in _SENTENCE_END.split(text.strip()):
            words = _WORD.findall(sentence)
            if not words:
                continue
            short = " ".join(sentence.split())
            is_sentence = is_docstring or len(words) >= _MIN_COMMENT_WORDS
            if is_sentence and _OPENINGS.fullmatch(words[0]):
                yield Fault(line, Rule.SUBJECT, f"a subject or verb before {words[0]!r}", short)
            found = _DIALECT_PATTERN.search(sentence)
            if found is not None:
                term = _TERMS[int(str(found.lastgroup)[1:])]
                yield Fault(line, Rule.DIALECT, f"{term}, not {found[0]!r}", short)
            if len(words) > MAX_WORDS:
                yield Fault(line, Rule.LONG, f"at most {MAX_WORDS} words, not {len(words)}", short)


def _texts(tree: ast.Module) -> tuple[list[tuple[int, str, bool]], set[int]]:
    """Return docstrings with texts after constants and fields, and the lines of long strings."""
    docstrings, lines = [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            if node.end_lineno != node.lineno:
                lines.update(range(node.lineno, (node.end_lineno or 0) + 1))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                docstrings.append((node.lineno, text, True))
    return docstrings, lines


def _comments(source: str, strings: Collection[int]) -> Iterator[tuple[int, str, bool]]:
    """Yield each block of comments as one text."""
    block: list[str] = []
    for number, line in enumerate(source.splitlines(), start=1):
        found = _COMMENT.search(line) if number not in strings else None
        is_alone = found is not None and found.start() == 0
        if block and not is_alone:
            yield number - len(block), "\n".join(block), False
            block = []
        text = "" if found is None else found[1] or found[2]
        if not text or _DIRECTIVE.match(text):
            continue
        if is_alone:
            block.append(text.lstrip("# "))
        else:
            yield number, text.lstrip("# "), False
    if block:
        yield number + 1 - len(block), "\n".join(block), False

"""The rules of prose: a sentence has a subject, standard terms, and an end.

CONTRIBUTING.md states them; ARCHITECTURE.md has the glossary.
"""

import enum
import re
from collections.abc import Iterator
from typing import NamedTuple

from tests.prose.sources import KINDS

MAX_WORDS = 40
"""Words of a sentence, above which it must be two."""

_MIN_COMMENT_WORDS = 7
"""Words of a comment, from which on it is a sentence; shorter ones may be labels."""

_OPENINGS = re.compile(
    r"(?:as|among|at|behind|beside|between|by|from|how|nobody|none(?!:)|nothing|of|that|what|whether|"
    r"which|who|whose)\b(?!['-])",
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
    r"|\n\s*\n|\n\s*[-*] "
)
"""The space behind a sentence. An argument is the subject of `lower: Whether to read ...`."""
_WORD = re.compile(r"[A-Za-z_][\w'-]*")


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


def faults(source: str, kind: str = ".py") -> Iterator[Fault]:
    """Yield the faults of a file's prose: docstrings, comments, or all that a page says."""
    for line, text, is_docstring in KINDS[kind](source):
        for sentence in _SENTENCE_END.split(text.strip()):
            words = _WORD.findall(sentence)
            if not words:
                continue
            short = " ".join(sentence.split())
            is_sentence = is_docstring or len(words) >= _MIN_COMMENT_WORDS
            if is_sentence and _OPENINGS.match(sentence, sentence.index(words[0])):
                yield Fault(line, Rule.SUBJECT, f"a subject or verb before {words[0]!r}", short)
            found = _DIALECT_PATTERN.search(sentence)
            if found is not None:
                term = _TERMS[int(str(found.lastgroup)[1:])]
                yield Fault(line, Rule.DIALECT, f"{term}, not {found[0]!r}", short)
            if len(words) > MAX_WORDS:
                yield Fault(line, Rule.LONG, f"at most {MAX_WORDS} words, not {len(words)}", short)

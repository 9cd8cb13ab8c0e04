"""The prose of a file, by its kind: a Python module, a protocol buffer, a page.

Each yields its texts as `(line, text, is_sentence)`: `is_sentence` says that even a short text is
one, and no label.
"""

import ast
import re
from collections.abc import Callable, Collection, Iterator, Mapping

Texts = Iterator[tuple[int, str, bool]]

_COMMENT = re.compile(r"^\s*(#.*)|  (#[^'\"]*)$")
"""A comment; one behind code has no quotes, as it might be a part of a text."""
_DIRECTIVE = re.compile(r"#\s*(?:noqa|type:|ruff|pragma|fmt|mypy|!)")

_PROTO_COMMENT = re.compile(r"^\s*// ?(.*)|//\s*([^\"]*)$")
"""A comment alone on its line, or behind a field."""
_RULER = re.compile(r"^-+$")

_LITERAL = re.compile(r"`[^`]*`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_HIDDEN = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = " " * 4
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")


def python_texts(source: str) -> Texts:
    """Yield docstrings, texts after constants and fields, and blocks of comments of a module."""
    strings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            if node.end_lineno != node.lineno:
                strings.update(range(node.lineno, (node.end_lineno or 0) + 1))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            text = node.value.value
            if isinstance(text, str):
                yield node.lineno, text, True
    for line, text in _blocks(source, lambda number, row: _python_comment(number, row, strings)):
        yield line, text, False


def proto_texts(source: str) -> Texts:
    """Yield the blocks of comments of a file of protocol buffers."""
    for line, text in _blocks(source, _proto_comment):
        yield line, text, True


def page_texts(source: str) -> Texts:
    """Yield the paragraphs, headings, list items and cells of tables of a page in Markdown.

    Programs, comments and literals are no prose. A link is its text.
    """
    in_fence, block, start = False, list[str](), 0
    shown = _HIDDEN.sub(lambda found: "\n" * found[0].count("\n"), source)
    for number, row in enumerate([*shown.splitlines(), ""], start=1):
        is_fence = bool(_FENCE.match(row))
        in_fence ^= is_fence
        is_code = in_fence or is_fence or (not block and row.startswith(_CODE))
        is_prose = not is_code and bool(row.strip())
        is_alone = row.lstrip().startswith(("|", "#"))
        if block and (not is_prose or is_alone or _ITEM.match(row)):
            yield start, _plain("\n".join(block)), False
            block = []
        if is_prose and is_alone:
            for cell in _plain(row).strip(" |#").split(" | "):
                yield number, cell, False
        elif is_prose:
            start = start if block else number
            block.append(_ITEM.sub("", row, count=1))


def _plain(text: str) -> str:
    return _LITERAL.sub("`_`", _LINK.sub(r"\1", text.replace("**", "")))


def _blocks(
    source: str, comment: Callable[[int, str], tuple[str, bool]]
) -> Iterator[tuple[int, str]]:
    """Yield each block of comments as one text; `comment` gives a row's, and if it is alone."""
    block: list[str] = []
    for number, row in enumerate([*source.splitlines(), ""], start=1):
        text, is_alone = comment(number, row)
        if block and not is_alone:
            yield number - len(block), "\n".join(block)
            block = []
        if is_alone:
            block.append(text)
        elif text:
            yield number, text


def _python_comment(number: int, row: str, strings: Collection[int]) -> tuple[str, bool]:
    found = _COMMENT.search(row) if number not in strings else None
    text = "" if found is None else found[1] or found[2]
    if not text or _DIRECTIVE.match(text):
        return "", False
    return text.lstrip("# "), bool(found and found[1])


def _proto_comment(_number: int, row: str) -> tuple[str, bool]:
    found = _PROTO_COMMENT.search(row)
    if found is None:
        return "", False
    text = found[1] if found[1] is not None else found[2]
    return "" if _RULER.match(text) else text, found[1] is not None


KINDS: Mapping[str, Callable[[str], Texts]] = {
    ".py": python_texts,
    ".proto": proto_texts,
    ".md": page_texts,
}
"""The reader of each kind of file, by the end of its name."""

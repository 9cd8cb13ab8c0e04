"""Sources of options, and suggestions for unknown names."""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

_OF_KUBERNETES = re.compile(
    r"SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?"
)
"""Ends of the variables that Kubernetes sets in every pod for a service called xla-server."""


def unknown_variables(environment: Iterable[str], prefix: str, known: Collection[str]) -> list[str]:
    """Return a sentence for each variable that begins with `prefix` and names no option.

    The prefix is in capitals, the `known` names of options in small letters.
    """
    faults = []
    for variable in sorted(environment):
        name = variable.lower().removeprefix(prefix.lower())
        is_ours = variable.upper().startswith(prefix) and name not in known
        if is_ours and not _OF_KUBERNETES.fullmatch(name.upper()):
            likely = nearest(name, known, lambda each: f"{prefix}{each.upper()}")
            faults.append(f"{variable}: there is no such option{likely}")
    return faults


def nearest(
    name: str, known: Iterable[str], written: Callable[[str], str] = lambda each: each
) -> str:
    """Return `; did you mean X?` for the known name nearest to another one; empty if none is.

    Known names are in small letters; `written` returns the form of one in the sentence.
    """
    found = difflib.get_close_matches(name.lower(), known, n=1)
    return f"; did you mean {written(found[0])}?" if found else ""


def origin(
    name: str,
    flags: Mapping[str, object],
    environment: Mapping[str, str],
    prefix: str,
    config: Path | None,
) -> str:
    """Return where an option was set: `VARIABLE`, `file:line: name`, or its name for a flag.

    The name also stands for an option that was set in none of these, as by a caller in Python.
    """
    if flags.get(name) is not None:
        return name
    variable = f"{prefix}{name.upper()}"
    if environment.get(variable):
        return variable
    if config is None:
        return name
    line = line_of(name, config.read_text())
    return f"{config}:{line}: {name}" if line else f"{config}: {name}"


def line_of(key: str, text: str) -> int:
    """Return the number of the line of a TOML text in which a top-level key is set; 0 if none."""
    pattern = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[.=\]]""")
    for number, line in enumerate(text.splitlines(), start=1):
        if pattern.match(line):
            return number
    return 0

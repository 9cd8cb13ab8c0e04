"""Settings of programs that call a server: variables of the environment, else a file, by target.

The Python client and the commands of the server read the same ones.
The file is `~/.config/xla-client/config.toml` (XDG_CONFIG_HOME), or the one of XLA_CLIENT_CONFIG:

    ["host:1685"]
    token_file = "/run/secrets/xla"     # or: token = "..."
    ca_file = "/etc/xla/ca.pem"         # or: fingerprint = "sha256:...", or: tls = true
    cert_file = "/etc/xla/me.pem"       # with key_file

In the environment the same names are in capitals after XLA_CLIENT_, and count for any target.
"""

import contextlib
import os
import stat
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from xla_contract.errors import InvalidArgumentError
from xla_contract.targets import normalized

PREFIX = "XLA_CLIENT_"
"""Prefix of the names in the environment."""

_CONFIG = f"{PREFIX}CONFIG"
_TEXTS = ("token", "token_file", "ca_file", "cert_file", "key_file", "fingerprint")
_FLAGS = ("tls", "insecure")
NAMES = (*_TEXTS, *_FLAGS)
"""Settings of a connection."""

_VARIABLES = (*(name.upper() for name in NAMES), "CONFIG", "SHARED_MEMORY")
"""Names in the environment, after the prefix."""
_FOREIGN = frozenset({f"{PREFIX}MEM_FRACTION"})
"""Variables with our prefix that others read: JAX has one."""


def require_known(environment: Mapping[str, str]) -> None:
    """Raise InvalidArgumentError for a variable with our prefix that nothing here reads."""
    for variable in environment:
        name = variable.removeprefix(PREFIX)
        if name == variable or name in _VARIABLES or variable in _FOREIGN:
            continue
        raise InvalidArgumentError(
            f"a variable of the environment that begins with {PREFIX} must be one of the client's, "
            f"got {variable}{_nearest(name, _VARIABLES, PREFIX)}"
        )


def _nearest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return the rest of a sentence that says which known name is meant, or what there is."""
    names = list(known)
    import difflib  # Mistakes alone need it.

    near = difflib.get_close_matches(name, names, 1)
    if near:
        return f"; did you mean {prefix}{near[0]}?"
    return f"; there are {', '.join(prefix + each for each in names)}"


def allows_shared_memory(environment: Mapping[str, str] = os.environ) -> bool:
    """Return False if XLA_CLIENT_SHARED_MEMORY is 0, which turns shared memory off."""
    return environment.get(f"{PREFIX}SHARED_MEMORY") != "0"


def configured_for(target: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a target, None for those that there are none of.

    Args:
        target: The target, as `normalized` gives it.
        environment: The variables of the process, which count before the file.

    Raises InvalidArgumentError for a file that cannot be read or says what it must not.
    """
    settings = overridden(_of_file(target, environment), _of_environment(environment))
    return {name: settings.get(name) for name in NAMES}


def overridden(settings: Mapping[str, Any], nearer: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, each replaced by that of a nearer source if this is not None.

    The file of a token in the nearer source stands before a token in the farther one.
    """
    kept = dict(settings)
    if nearer.get("token") or nearer.get("token_file"):
        kept |= {"token": None, "token_file": None}
    return kept | {name: value for name, value in nearer.items() if value is not None}


def _of_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in NAMES:
        value = environment.get(f"{PREFIX}{name.upper()}")
        if value:
            found[name] = value not in ("0", "false") if name in _FLAGS else value
    return found


def _of_file(target: str, environment: Mapping[str, str]) -> dict[str, Any]:
    named = environment.get(_CONFIG)
    base = environment.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = Path(named) if named else Path(base) / "xla-client" / "config.toml"
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            text = file.read().decode()
        targets = tomllib.loads(text)
    except FileNotFoundError:
        if named:
            raise InvalidArgumentError(f"{_CONFIG} must name a file, got {path}") from None
        return {}
    except OSError as error:
        # The home directory of another user: a process in a container may have that of root.
        if not named and not os.access(path.parent, os.X_OK):
            return {}
        raise InvalidArgumentError(
            f"a configuration must be a file that can be read, got {path}: {error.strerror}"
        ) from None
    except ValueError as error:
        raise InvalidArgumentError(f"a configuration must be TOML, got {path}: {error}") from None
    named_target = target
    for name, table in targets.items():
        if not isinstance(table, dict):
            raise InvalidArgumentError(
                f'{path}{_line(text, name)}: a target must be a table ["{target}"], got the key '
                f"{name} outside of one"
            )
        # A table whose name is no target is ignored.
        with contextlib.suppress(InvalidArgumentError):
            if normalized(name) == target:
                named_target = name
    found: dict[str, Any] = targets.get(named_target, {})
    for name, value in found.items():
        place = f"{path}{_line(text, name, named_target)}"
        if name not in NAMES:
            raise InvalidArgumentError(
                f"{place}: a target must have keys of the client's, got {name}"
                f"{_nearest(name, NAMES)}"
            )
        if type(value) is not (bool if name in _FLAGS else str):
            kind = "true or false" if name in _FLAGS else "a text"
            raise InvalidArgumentError(
                f"{place}: {name} must be {kind}, got one of type {type(value).__name__}"
            )
    if "token" in found and stat.S_IMODE(mode) & 0o077:
        raise InvalidArgumentError(
            f"{path}: a file with a token must be readable by its owner alone, got mode "
            f"{stat.S_IMODE(mode):04o}",
            hint=f"chmod 600 {path}",
        )
    return dict(found)


def _line(text: str, key: str, table: str | None = None) -> str:
    """Return ":" and the number of the line with a key, in a table or before the first one.

    Empty where the key is written in another way than on a line of its own.
    """
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            with contextlib.suppress(ValueError):
                inside = next(iter(tomllib.loads(stripped)), None)
        elif inside == table and stripped.partition("=")[0].strip().strip("'\"") == key:
            return f":{number}"
    return ""

"""The options of a server: one record, from which flags, variables, TOML keys and the page derive.

Each field of `Settings` has a name, a type with unit and bounds, a default and a description.
Precedence: flag, environment variable, TOML file, default.
"""

import dataclasses
import enum
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from xla_host.environment_variables import CACHE_HOME, STATE_HOME, EnvironmentVariable
from xla_server.app.endings import ConfigurationError
from xla_server.app.options.mistakes import nearest, origin, unknown_variables
from xla_server.app.options.platform_names import DEFAULT, Platform
from xla_server.app.options.sizes import format_size, parse_size
from xla_server.target.available import available_memory

ENVIRONMENT_PREFIX = "XLA_SERVER_"
CONFIG_VARIABLE = f"{ENVIRONMENT_PREFIX}CONFIG"
"""The variable that names the TOML file."""

MAX_MESSAGE_BYTES = 2**31 - 1
"""Size limit of a protobuf message, and so of a gRPC message of this contract, in bytes."""

_MAX_SECONDS = 86_400
"""Upper bound of durations, in seconds: a day."""


class SocketMode(enum.StrEnum):
    """File modes of unix sockets: the users that may connect."""

    OWNER = "0600"
    GROUP = "0660"


Distribution = enum.StrEnum("Distribution", "NONE MPI")
"""Means of joining processes."""

LogLevel = enum.StrEnum("LogLevel", "DEBUG INFO WARNING ERROR")
"""Lowest severities to log."""


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryFraction:
    """A default: a fraction of the memory that this process may use, at most `max_bytes`."""

    numerator: int
    denominator: int
    max_bytes: int | None = None

    def __call__(self) -> int:
        """Return the number of bytes."""
        size = available_memory() * self.numerator // self.denominator
        return size if self.max_bytes is None else min(size, self.max_bytes)

    def __str__(self) -> str:
        """Return the fraction in words."""
        fraction = f"{self.numerator}/{self.denominator} of the memory"
        return (
            fraction
            if self.max_bytes is None
            else f"{fraction}, at most {format_size(self.max_bytes)}"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class UserDirectory:
    """A default: a directory of this user by the XDG base directory specification."""

    variable: EnvironmentVariable
    base: str
    path: str

    def __call__(self) -> str:
        """Return the path, below `base` where the variable names no absolute path."""
        named = self.variable.value() or ""
        base = named if os.path.isabs(named) else os.path.expanduser(self.base)
        return os.path.join(base, self.path)

    def __str__(self) -> str:
        """Return the path as shells write it."""
        return f"{self.base}/{self.path}"


USER_STATE = UserDirectory(STATE_HOME, "~/.local/state", "xla-server")
_USER_KERNELS = UserDirectory(CACHE_HOME, "~/.cache", "xla-server/kernels")


def incident_directory(dump_dir: str) -> Path:
    """Return the directory for programs that the compiler fails on: `dump_dir`, else the user's."""
    return Path(dump_dir) if dump_dir else Path(USER_STATE()) / "incidents"


def _split(value: Any) -> Any:
    """Split a text at commas, and each text of a list of them."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    if isinstance(value, list | tuple):
        return [each for part in value for each in (_split(part) if part else [part])]
    return value


ALL_DEVICES = 0
"""The number of devices that selects all devices of the machine."""


def _device_count(value: Any) -> Any:
    """Return the number that a text means; `all` alone is ALL_DEVICES."""
    if value == "all":
        return ALL_DEVICES
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise ValueError(f"must be at least 1, or all, got {value!r:.200}")
    return count


def _check_modules(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"must be the names of modules, got {name!r}")
    return names


def _check_addresses(addresses: tuple[str, ...]) -> tuple[str, ...]:
    for address in addresses:
        _check_address(address)
    return addresses


def _check_metrics_address(address: str) -> str:
    if address.startswith("unix"):
        raise ValueError(f"must be HOST:PORT or [IPV6]:PORT, got {address!r}")
    if address:
        _check_address(address)
    return address


SIZE = BeforeValidator(parse_size)
"""Marks a number of bytes, which may be written with a unit (app/options/sizes.py)."""

DEVICES = BeforeValidator(_device_count)
"""Marks a number of devices, which may be written `all`."""

Count: TypeAlias = Annotated[int, Field(ge=1)]
Threads: TypeAlias = Annotated[int, Field(ge=1, le=1024)]
Bytes: TypeAlias = Annotated[int, Field(ge=1), SIZE]
BytesOrZero: TypeAlias = Annotated[int, Field(ge=0), SIZE]
Seconds: TypeAlias = Annotated[float, Field(ge=0, le=_MAX_SECONDS)]
Share: TypeAlias = Annotated[float, Field(gt=0, le=1)]
Names: TypeAlias = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


def _option(default: Any, description: str) -> Any:
    """Return a field with a default: a value, or a function that computes it."""
    if callable(default):
        return Field(default_factory=default, description=description)
    return Field(default, description=description)


class Settings(BaseSettings):
    """The options of one server, each also XLA_SERVER_<NAME> and a key of the TOML file."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, extra="forbid", frozen=True, env_ignore_empty=True
    )

    listen: Annotated[Names, Field(min_length=1), AfterValidator(_check_addresses)] = _option(
        ("127.0.0.1:1685",),
        "addresses: HOST:PORT, [IPV6]:PORT or unix:PATH; repeat the option, or separate them by "
        "commas",
    )
    platform: Platform = _option(DEFAULT, "backend that runs the programs")
    devices: Annotated[int, Field(le=4096), DEVICES] = _option(
        1, "number of devices of the platform; all: every GPU there is (cuda)"
    )
    distributed: Distribution = _option(
        Distribution.NONE,
        "way in which processes on one or several machines are one server; mpi: those that mpirun "
        "started, each with so many devices",
    )
    fast_collectives: bool = _option(
        False,
        "let MPI reduce operands of an all-reduce above 16 MiB in a group where it has the "
        "operation: faster, with results that depend on the number of processes",
    )
    shared_window_bytes: BytesOrZero = _option(
        2**25,
        "memory of each process in which those of one machine exchange small operands, less where "
        "/dev/shm is small; 0: none (mpi)",
    )
    cuda_memory_fraction: Share = _option(
        0.9, "share of a GPU's memory for programs and values (cuda)"
    )
    grace_seconds: Seconds = _option(30.0, "time that calls in progress have to end after SIGTERM")
    log_level: LogLevel = _option(LogLevel.INFO, "lowest severity of messages to log")
    metrics_listen: Annotated[str, AfterValidator(_check_metrics_address)] = _option(
        "",
        "HOST:PORT of Prometheus' metrics at /metrics, by plain HTTP to all that can connect; "
        "empty: none",
    )
    max_device_bytes: Bytes = _option(
        MemoryFraction(1, 2),
        "memory for values on devices; with cuda by default cuda-memory-fraction of all GPUs",
    )
    spared_device_share: Annotated[float, Field(ge=0, le=0.5)] = _option(
        1 / 16, "share of max-device-bytes that uploads in progress leave to others"
    )
    upload_silence_seconds: Annotated[float, Field(gt=0, le=_MAX_SECONDS)] = _option(
        60.0, "time that an upload's stream may send nothing"
    )
    max_message_bytes: Annotated[int, Field(ge=1024, le=MAX_MESSAGE_BYTES), SIZE] = _option(
        MAX_MESSAGE_BYTES, "size of one message"
    )
    max_executables: Count = _option(
        1024,
        "number of programs in use whose compiled code is cached; the least recently called are "
        "evicted",
    )
    max_executable_bytes: BytesOrZero = _option(
        MemoryFraction(1, 8), "memory for constants and code of max-executables"
    )
    max_program_bytes: Bytes = _option(
        MemoryFraction(1, 16), "memory for the modules of all programs in use"
    )
    max_idle_executables: Annotated[int, Field(ge=0)] = _option(
        32, "number of unused executables cached for reuse"
    )
    max_idle_executable_bytes: BytesOrZero = _option(
        2**28, "memory for constants and code of unused executables"
    )
    max_answer_bytes: Bytes = _option(
        MemoryFraction(1, 8),
        "size of responses that clients have not read; each takes twice its size in memory",
    )
    max_resident_bytes: BytesOrZero = _option(
        MemoryFraction(9, 10),
        "resident memory of the server above which calls are ended that take more than a second "
        "to send a message; 0: no limit",
    )
    max_handles: Count = _option(
        1_000_000, "number of handles of values, and of executables, per session"
    )
    max_sessions: Count = _option(
        4096, "number of sessions; an empty one, unused for 10 s, is ended for one more"
    )
    session_grace_seconds: Seconds = _option(
        60.0, "time that a session outlives the connection of its client"
    )
    session_device_bytes: BytesOrZero = _option(
        0, "memory for values of one session; 0: its connection's share of max-device-bytes"
    )
    session_executions: Count = _option(64, "number of concurrent executions of one session")
    max_executions: Count = _option(
        1024, "number of concurrent executions; a session that has none may start one beyond it"
    )
    identity_share: Share = _option(
        0.875,
        "largest share of sessions, executables, device memory, executions, calls, streams, "
        "compile time, responses and shared memory for one identity (the authenticated caller, "
        "else the client's host), of what others leave; 1: no limit",
    )
    connection_share: Share = _option(
        0.75, "largest share of the same for one connection; 1: no limit"
    )
    max_launches: Count = _option(16_384, "number of launched executions that have not ended")
    execution_wait_seconds: Seconds = _option(
        60.0, "time that an execution waits for memory in use by others"
    )
    max_replicated_bytes: Bytes = _option(
        2**30, "values of a program that each of its partitions may hold whole, between regions"
    )
    collective_timeout_seconds: Annotated[float, Field(gt=0, le=_MAX_SECONDS)] = _option(
        60.0, "time that a participant of a collective waits for the others"
    )
    session_launches: Count = _option(
        1024, "number of launched executions of one session that have not ended"
    )
    session_compile_seconds: Annotated[float, Field(gt=0)] = _option(
        1800.0, "compile time of one session per hour"
    )
    max_compile_seconds: Annotated[float, Field(ge=0)] = _option(
        0.0, "compile time of all sessions per hour; 0: all that compile-threads have"
    )
    session_answer_bytes: Bytes = _option(
        MemoryFraction(1, 16, max_bytes=2**30),
        "size of unread responses of one session, which may always have one",
    )
    max_streams: Count = _option(
        1024, "number of concurrent streams; a session that has none may open one beyond it"
    )
    session_streams: Count = _option(256, "number of concurrent streams of one session")
    shared_memory_bytes: BytesOrZero = _option(
        MemoryFraction(1, 8), "memory shared with clients on this host; 0: none"
    )
    session_shared_memory_bytes: Annotated[int, Field(ge=4096), SIZE] = _option(
        2**30, "memory that one session shares with its client"
    )
    shared_memory_connections: Annotated[int, Field(ge=1, le=65_536)] = _option(
        256, "number of clients that share memory, and of allocations with a channel"
    )
    max_concurrent_calls: Count = _option(
        4096, "number of calls running or queued; a session that has none may make one beyond it"
    )
    session_calls: Count = _option(
        2048, "number of calls of one session running or queued, those on streams included"
    )
    feed_items: Count = _option(128, "number of values of one session in feeds and channels")
    feed_bytes: Bytes = _option(
        256 * 2**20, "size of the values of one session in feeds and channels"
    )
    short_threads: Threads = _option(16, "number of threads for short calls")
    compile_threads: Threads = _option(4, "number of threads that compile")
    execute_threads: Threads = _option(256, "number of threads that run programs")
    compilation_cache_dir: str = _option(
        _USER_KERNELS, "directory of compiled kernels, writable by this user alone; empty: no cache"
    )
    prepare: bool = _option(
        True, "compile the kernels that programs share when the server is ready"
    )
    dump_dir: str = _option(
        "",
        "directory for dumps and profiles that clients request (xla_dump_to); empty: requests "
        "are refused",
    )
    custom_calls: Annotated[Names, AfterValidator(_check_modules)] = _option(
        (), "Python modules that register custom call targets, separated by commas"
    )
    tls_cert_file: str = _option(
        "", "PEM certificate for TLS on TCP ports, followed by its issuers'"
    )
    tls_key_file: str = _option("", "PEM key of tls-cert-file")
    tls_self_signed: bool = _option(
        False, "create a key and a certificate in state-dir, for clients to pin"
    )
    client_ca_file: str = _option(
        "", "PEM certificates of the authorities that must have issued every client's certificate"
    )
    token_file: str = _option(
        "", "bearer tokens: lines NAME ROLE TOKEN or sha256:HEX, or one token alone"
    )
    jwt_keys_file: str = _option("", "JSON Web Key Set that signs bearer tokens")
    jwt_secret_file: str = _option("", "shared secret that signs bearer tokens")
    jwt_algorithms: Names = _option(
        (),
        "signature algorithms, separated by commas; empty: RS256, ES256 and EdDSA with a key "
        "set, HS256 with a secret",
    )
    jwt_audience: str = _option("", "value that aud of a JSON Web Token must contain")
    jwt_issuer: str = _option("", "value that iss of a JSON Web Token must have")
    jwt_role_claim: str = _option(
        "", "claim of a JSON Web Token with the caller's role; empty: every caller is a user"
    )
    roles_file: str = _option("", "roles of callers: lines IDENTITY ROLE, with * for all others")
    socket_mode: SocketMode = _option(
        SocketMode.OWNER,
        "mode of unix sockets: 0600 admits this user, 0660 also the process's group",
    )
    state_dir: str = _option(
        USER_STATE,
        "directory of what is created once, such as the token of a server without credentials",
    )
    insecure: bool = _option(
        False,
        "listen beyond loopback in plaintext; require no credentials where none are configured",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The order of precedence; called by pydantic-settings."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


_KINDS = {int: "integer", float: "number", bool: "switch", str: "text", tuple[str, ...]: "names"}
"""Forms of values by type, where no other is more exact."""


def is_size(name: str) -> bool:
    """Return whether a field of Settings is a number of bytes."""
    return SIZE in Settings.model_fields[name].metadata


def notation(name: str) -> str:
    """Return the form of a value of a field of Settings: SIZE, integer, none|mpi."""
    field = Settings.model_fields[name]
    kind: Any = field.annotation
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return "|".join(kind)
    if is_size(name):
        return "SIZE"
    if DEVICES in field.metadata:
        return "N|all"
    return "seconds" if name.endswith("_seconds") else _KINDS[kind]


def default_text(name: str) -> str:
    """Return the default of a field of Settings as options are written; empty for an empty one."""
    field = Settings.model_fields[name]
    default: Any = field.default if field.default_factory is None else field.default_factory
    if isinstance(default, tuple):
        return ",".join(default)
    if isinstance(default, bool):
        return "yes" if default else "no"
    if isinstance(default, float):
        return f"{default:g}"
    return format_size(default) if is_size(name) and isinstance(default, int) else str(default)


def described(name: str) -> str:
    """Return the help of a field of Settings: its description, then the default if it has one."""
    default = default_text(name)
    description = str(Settings.model_fields[name].description)
    return f"{description}; by default {default}" if default else description


def load_settings(flags: Mapping[str, Any], config: Path | None = None) -> Settings:
    """Return the options from flags (those not None), environment, TOML file and defaults.

    Raises ConfigurationError for values that do not fit, unknown keys of the file, and a file
    that cannot be read.
    """

    class WithFile(Settings):
        model_config = SettingsConfigDict(toml_file=config)

    known = set(Settings.model_fields)
    variables = set(os.environ) - {CONFIG_VARIABLE}
    faults = unknown_variables(variables, ENVIRONMENT_PREFIX, known)
    if config is not None and not config.is_file():
        fault = "must be a file, got a directory" if config.exists() else "there is no such file"
        faults.append(f"{config}: {fault}")
        raise ConfigurationError("\n".join(faults))
    try:
        settings = WithFile(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as error:
        faults += [_sentence(each, flags, config) for each in error.errors()]
    except (OSError, tomllib.TOMLDecodeError) as error:
        faults.append(f"{config}: {error}")
    if faults:
        raise ConfigurationError("\n".join(faults))
    return settings


def _check_address(address: str) -> None:
    prefix, _, path = address.partition(":")
    if prefix in ("unix", "unix-abstract"):
        if not path.removeprefix("//"):
            raise ValueError(f"must name the socket, got {address!r}")
        return
    host, colon, port = address.rpartition(":")
    is_plain = ":" not in host or (host.startswith("[") and host.endswith("]"))
    if not (colon and host and is_plain and port.isascii() and port.isdecimal()):
        raise ValueError(f"must be HOST:PORT, [IPV6]:PORT or unix:PATH, got {address!r}")
    if int(port) > 65_535:
        raise ValueError(f"the port must be below 65536, got {port}")


_UNABLE = re.compile(r", unable to .*")
"""The part of pydantic's messages that says no more than their rule."""


def _sentence(fault: Any, flags: Mapping[str, Any], config: Path | None) -> str:
    """Return a sentence for a fault that pydantic found, with the origin of the value."""
    name = ".".join(map(str, fault["loc"][:1]))
    source = origin(name, flags, os.environ, ENVIRONMENT_PREFIX, config)
    if fault["type"] == "extra_forbidden":
        return f"{source}: there is no such option{nearest(name, Settings.model_fields)}"
    ours = fault.get("ctx", {}).get("error")
    if ours is not None:
        return f"{source}: {ours}"
    rule = _UNABLE.sub("", fault["msg"]).replace("Input should be", "must be")
    return f"{source}: {rule}, got {fault['input']!r:.200}"

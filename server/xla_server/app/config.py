"""The options of a server: flag > environment > TOML file > default."""

import enum
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from xla_server.app.memory import available_memory
from xla_server.app.mistakes import nearest, origin, unknown_variables
from xla_server.app.platform_names import DEFAULT, Platform
from xla_server.app.sizes import format_size, parse_size

ENVIRONMENT_PREFIX = "XLA_SERVER_"
CONFIG_VARIABLE = f"{ENVIRONMENT_PREFIX}CONFIG"
"""The variable that names the TOML file."""

MAX_MESSAGE_BYTES = 2**31 - 1
"""What one protobuf message, and so one gRPC message of this contract, can be."""


class ConfigurationError(Exception):
    """The options are wrong; the message says which and why, one line each."""


class SocketMode(enum.StrEnum):
    """Modes of the files of unix sockets: the users that may connect."""

    OWNER = "0600"
    GROUP = "0660"


class LogLevel(enum.StrEnum):
    """What is logged: this and everything graver."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def _user_cache() -> Path:
    """Where the XDG base directory specification has a user's cached files."""
    return _user_directory("XDG_CACHE_HOME", "~/.cache")


def incident_directory(dump_dir: str) -> Path:
    """Where programs that the compiler fails on are kept.

    That is the directory for dumps, or else the user's for the state of programs.
    """
    if dump_dir:
        return Path(dump_dir)
    return user_state() / "incidents"


def user_state() -> Path:
    """Where the XDG base directory specification has what a program keeps of its state."""
    return _user_directory("XDG_STATE_HOME", "~/.local/state") / "xla-server"


def _user_directory(variable: str, default: str) -> Path:
    named = os.environ.get(variable, "")
    return Path(named) if os.path.isabs(named) else Path(os.path.expanduser(default))


class Settings(BaseSettings):
    """The options of one server, each also XLA_SERVER_<NAME> and a key of the TOML file."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, extra="forbid", frozen=True, env_ignore_empty=True
    )

    listen: Annotated[tuple[str, ...], NoDecode] = Field(
        ("127.0.0.1:1685",),
        min_length=1,
        description="HOST:PORT, [IPV6]:PORT or unix:PATH; several, or commas between, for more",
    )
    platform: Platform = Field(DEFAULT, description="what runs the programs")
    devices: int = Field(1, ge=1, le=4096, description="devices of the platform")
    grace_seconds: float = Field(
        30.0, ge=0, le=86_400, description="how long calls may go on after SIGTERM"
    )
    log_level: LogLevel = Field(LogLevel.INFO, description="least grave messages to log")
    max_device_bytes: int = Field(
        default_factory=lambda: available_memory() // 2,
        ge=1,
        description="bytes of values kept; by default half of the memory there is",
    )
    spared_device_share: float = Field(
        1 / 16,
        ge=0,
        le=0.5,
        description="share of max-device-bytes that uploads in progress leave to others",
    )
    upload_silence_seconds: float = Field(
        60.0, gt=0, le=86_400, description="how long the stream of an upload may send nothing"
    )
    max_message_bytes: int = Field(
        MAX_MESSAGE_BYTES, ge=1024, le=MAX_MESSAGE_BYTES, description="bytes of one message"
    )
    max_executables: int = Field(
        1024, ge=1, description="programs in use whose code is kept, the last ones called"
    )
    max_executable_bytes: int = Field(
        default_factory=lambda: available_memory() // 8,
        ge=0,
        description="bytes of constants and code of these; by default an eighth of the memory",
    )
    max_program_bytes: int = Field(
        default_factory=lambda: available_memory() // 16,
        ge=1,
        description="bytes of the modules of all programs in use; by default a sixteenth of the "
        "memory there is",
    )
    max_idle_executables: int = Field(32, ge=0, description="unused executables kept for reuse")
    max_idle_executable_bytes: int = Field(
        2**28, ge=0, description="bytes of constants and code of unused executables kept for reuse"
    )
    max_answer_bytes: int = Field(
        default_factory=lambda: available_memory() // 8,
        ge=1,
        description="bytes of answers that clients have not read, each of which takes twice its "
        "size in memory; by default an eighth of the memory there is",
    )
    max_resident_bytes: int = Field(
        default_factory=lambda: available_memory() * 9 // 10,
        ge=0,
        description="bytes of memory of the server beyond which calls are ended that take more "
        "than a second to send a message; by default nine tenths of the memory there is, 0 for any",
    )
    max_handles: int = Field(
        1_000_000, ge=1, description="handles of values, and of executables, of a session"
    )
    max_sessions: int = Field(4096, ge=1, description="sessions at the same time")
    session_grace_seconds: float = Field(
        60.0, ge=0, le=86_400, description="how long a session is kept whose client has gone"
    )
    session_device_bytes: int = Field(
        0, ge=0, description="bytes of values a session keeps; 0: its connection's share of all"
    )
    session_executions: int = Field(
        64, ge=1, description="executions of a session at the same time"
    )
    max_executions: int = Field(
        1024,
        ge=1,
        description="executions at the same time; a session without any may begin one even so",
    )
    identity_share: float = Field(
        0.875,
        gt=0,
        le=1,
        description="largest share of sessions, executables, device bytes, executions, calls, "
        "streams, compile seconds, answers and shared memory that one identity may have of what "
        "others leave: who is authenticated, or else the host of a client; 1 for all",
    )
    connection_share: float = Field(
        0.75,
        gt=0,
        le=1,
        description="largest share of the same that one connection may have; 1 for all",
    )
    max_launches: int = Field(
        16_384, ge=1, description="executions that were launched and have not ended"
    )
    execution_wait_seconds: float = Field(
        60.0,
        ge=0,
        le=86_400,
        description="how long an execution may wait for memory that others are running in",
    )
    session_launches: int = Field(
        1024, ge=1, description="executions of a session that were launched and have not ended"
    )
    session_compile_seconds: float = Field(
        1800.0, gt=0, description="seconds a session may compile within an hour"
    )
    max_compile_seconds: float = Field(
        0.0,
        ge=0,
        description="seconds that all sessions may compile within an hour; 0: all that the "
        "threads that compile have",
    )
    session_answer_bytes: int = Field(
        default_factory=lambda: min(2**30, available_memory() // 16),
        ge=1,
        description="bytes of a session's answers that were not read, beside which it has room "
        "for one; by default 1 GiB, or a sixteenth of the memory there is",
    )
    max_streams: int = Field(
        1024,
        ge=1,
        description="streams at the same time; a session without any may begin one even so",
    )
    session_streams: int = Field(256, ge=1, description="streams of a session at the same time")
    shared_memory_bytes: int = Field(
        default_factory=lambda: available_memory() // 8,
        ge=0,
        description="bytes of memory shared with clients on this host; by default an eighth of the "
        "memory there is, 0 for none",
    )
    session_shared_memory_bytes: int = Field(
        2**30, ge=4096, description="bytes of memory a session shares with its client"
    )
    shared_memory_connections: int = Field(
        256,
        ge=1,
        le=65_536,
        description="clients that share memory at the same time, and allocations that have a line",
    )
    max_concurrent_calls: int = Field(
        4096,
        ge=1,
        description="calls in progress or in line; a session without any may begin one even so",
    )
    session_calls: int = Field(
        2048, ge=1, description="calls of a session in progress or in line, also on streams"
    )
    feed_items: int = Field(128, ge=1, description="values of a session in a feed or on channels")
    feed_bytes: int = Field(
        256 * 2**20, ge=1, description="bytes of a session in a feed or on channels"
    )
    short_threads: int = Field(16, ge=1, le=1024, description="threads for short calls")
    compile_threads: int = Field(4, ge=1, le=1024, description="threads that compile")
    execute_threads: int = Field(256, ge=1, le=1024, description="threads that run programs")
    compilation_cache_dir: str = Field(
        default_factory=lambda: str(_user_cache() / "xla-server" / "kernels"),
        description="directory of compiled kernels, which only this user may write into; "
        "empty for none; by default xla-server/kernels in the user's cache (~/.cache)",
    )
    prepare: bool = Field(
        True, description="compile what programs share as soon as the server is ready"
    )
    dump_dir: str = Field(
        "",
        description="directory in which clients may have dumps and profiles written (xla_dump_to); "
        "empty: they are refused",
    )
    custom_calls: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Python modules that register targets of custom calls, commas between"
    )
    tls_cert_file: str = Field(
        "", description="PEM certificate of TLS on TCP ports, with those of its issuers behind"
    )
    tls_key_file: str = Field("", description="PEM key of tls-cert-file")
    tls_self_signed: bool = Field(
        False, description="make a key and a certificate in state-dir, which clients pin"
    )
    client_ca_file: str = Field(
        "", description="PEM certificates of authorities, one of which every client must be of"
    )
    token_file: str = Field(
        "", description="bearer tokens: lines NAME ROLE TOKEN or sha256:HEX, or one token alone"
    )
    jwt_keys_file: str = Field("", description="JSON Web Key Set that bearer tokens are signed by")
    jwt_secret_file: str = Field("", description="shared secret that bearer tokens are signed by")
    jwt_algorithms: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="algorithms of signatures, commas between; by default RS256, ES256 and EdDSA "
        "with a key set, HS256 with a secret",
    )
    jwt_audience: str = Field("", description="what aud of a JSON Web Token must have")
    jwt_issuer: str = Field("", description="what iss of a JSON Web Token must be")
    jwt_role_claim: str = Field(
        "", description="claim of a JSON Web Token with the caller's role; empty: all are users"
    )
    roles_file: str = Field(
        "", description="roles of callers: lines IDENTITY ROLE, with * for those that have none"
    )
    socket_mode: SocketMode = Field(
        SocketMode.OWNER,
        description="mode of unix sockets: 0600 lets this user in, 0660 the process's group, too",
    )
    state_dir: str = Field(
        default_factory=lambda: str(user_state()),
        description="directory of what is made once, such as the token of a server without "
        "credentials; by default xla-server in the user's state (~/.local/state)",
    )
    insecure: bool = Field(
        False,
        description="listen beyond loopback in plaintext; ask nobody for credentials where none "
        "are configured",
    )

    @field_validator("*", mode="before")
    @classmethod
    def _read_sizes(cls, value: Any, info: ValidationInfo) -> Any:
        return parse_size(value) if is_size(info.field_name or "") else value

    @field_validator("custom_calls", "jwt_algorithms", mode="before")
    @classmethod
    def _split_names(cls, value: Any) -> Any:
        return _split(value)

    @field_validator("listen", mode="before")
    @classmethod
    def _split_listen(cls, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return _split(value)
        return [each for part in value for each in (_split(part) if part else [part])]

    @field_validator("custom_calls")
    @classmethod
    def _check_custom_calls(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not all(part.isidentifier() for part in name.split(".")):
                raise ValueError(f"must be the names of modules, got {name!r}")
        return value

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for address in value:
            _check_address(address)
        return value

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


def is_size(name: str) -> bool:
    """Return whether a field of Settings is a number of bytes."""
    return name.endswith("_bytes")


def described(name: str) -> str:
    """What a field of Settings is for, with its default.

    A default that depends on the machine, or is empty, is a matter of the description.
    """
    field = Settings.model_fields[name]
    if field.default_factory is not None or field.default in ("", ()):
        return str(field.description)
    default: Any = field.default
    if isinstance(default, tuple):
        default = ",".join(default)
    elif isinstance(default, bool):
        default = "yes" if default else "no"
    elif isinstance(default, float):
        default = f"{default:g}"
    elif is_size(name):
        default = format_size(default)
    return f"{field.description}; by default {default}"


def load_settings(flags: Mapping[str, Any], config: Path | None = None) -> Settings:
    """The options from flags (those not None), environment, TOML file and defaults.

    Raises ConfigurationError for values that do not fit, unknown keys of the file, and a file
    that cannot be read.
    """

    class WithFile(Settings):
        model_config = SettingsConfigDict(toml_file=config)

    known = set(Settings.model_fields)
    variables = set(os.environ) - {CONFIG_VARIABLE}
    faults = unknown_variables(variables, ENVIRONMENT_PREFIX, known)
    if config is not None and not config.is_file():
        faults.append(f"{config}: there is no such file")
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


def _split(value: Any) -> Any:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _check_address(address: str) -> None:
    prefix, _, place = address.partition(":")
    if prefix in ("unix", "unix-abstract"):
        if not place.removeprefix("//"):
            raise ValueError(f"must name the socket, got {address!r}")
        return
    host, colon, port = address.rpartition(":")
    is_plain = ":" not in host or (host.startswith("[") and host.endswith("]"))
    if not (colon and host and is_plain and port.isascii() and port.isdecimal()):
        raise ValueError(f"must be HOST:PORT, [IPV6]:PORT or unix:PATH, got {address!r}")
    if int(port) > 65_535:
        raise ValueError(f"the port must be below 65536, got {port}")


def _sentence(fault: Any, flags: Mapping[str, Any], config: Path | None) -> str:
    """Return the sentence for a fault that pydantic found, after where the value was written."""
    name = ".".join(map(str, fault["loc"][:1]))
    place = origin(name, flags, os.environ, ENVIRONMENT_PREFIX, config)
    if fault["type"] == "extra_forbidden":
        return f"{place}: there is no such option{nearest(name, Settings.model_fields)}"
    reason = str(fault.get("ctx", {}).get("error", fault["msg"]))
    return f"{place}: {reason} (got {fault['input']!r:.200})"

"""The options of `Local`: those of `xla-server serve`, with underscores."""

from collections.abc import Iterable
from typing import TypeAlias, TypedDict

from xla_contract.errors import ArgumentTypeError

Flag: TypeAlias = bool | None
Number: TypeAlias = int | None
Real: TypeAlias = float | None
Size: TypeAlias = int | str | None
"""A number of bytes."""
Text: TypeAlias = str | None


class LocalOptions(TypedDict, total=False):
    """Options that `Local` passes on to its server; None leaves one out.

    `docs/SERVER.md` says what each of them does. A test holds the names to the server's.
    """

    grace_seconds: Real
    log_level: Text
    metrics_listen: Text
    max_device_bytes: Size
    spared_device_share: Real
    upload_silence_seconds: Real
    max_message_bytes: Size
    max_executables: Number
    max_executable_bytes: Size
    max_program_bytes: Size
    max_idle_executables: Number
    max_idle_executable_bytes: Size
    max_answer_bytes: Size
    max_resident_bytes: Size
    max_handles: Number
    max_sessions: Number
    session_grace_seconds: Real
    session_device_bytes: Size
    session_executions: Number
    max_executions: Number
    identity_share: Real
    connection_share: Real
    max_launches: Number
    execution_wait_seconds: Real
    max_replicated_bytes: Size
    collective_timeout_seconds: Real
    cuda_memory_fraction: Real
    session_launches: Number
    session_compile_seconds: Real
    max_compile_seconds: Real
    session_answer_bytes: Size
    max_streams: Number
    session_streams: Number
    shared_memory_bytes: Size
    session_shared_memory_bytes: Size
    shared_memory_connections: Number
    max_concurrent_calls: Number
    session_calls: Number
    feed_items: Number
    feed_bytes: Size
    short_threads: Number
    compile_threads: Number
    execute_threads: Number
    compilation_cache_dir: Text
    prepare: Flag
    dump_dir: Text
    custom_calls: Text
    tls_cert_file: Text
    tls_key_file: Text
    tls_self_signed: Flag
    client_ca_file: Text
    token_file: Text
    jwt_keys_file: Text
    jwt_secret_file: Text
    jwt_algorithms: Text
    jwt_audience: Text
    jwt_issuer: Text
    jwt_role_claim: Text
    roles_file: Text
    socket_mode: Text
    state_dir: Text
    insecure: Flag
    listen: Text


OWN_PARAMETERS = ("platform", "devices", "timeout")
"""The parameters of `Local` beside the options."""


def require_known(names: Iterable[str]) -> None:
    """Raise TypeError, with the nearest name, for an option that no server has."""
    known = (*OWN_PARAMETERS, *LocalOptions.__annotations__)
    for name in names:
        if name not in known:
            import difflib  # Mistakes alone need it.

            near = difflib.get_close_matches(name, known, 1)
            advice = (
                f"did you mean {near[0]!r}?" if near else "`xla-server serve --help` lists them"
            )
            raise ArgumentTypeError(f"got an unexpected keyword argument {name!r}; {advice}")
